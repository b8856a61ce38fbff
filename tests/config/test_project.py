"""The project file `pricekit.toml`."""

import pytest

from pricekit.config.project import Project, read_project, update_project
from pricekit.errors import ConfigError


def _write(folder, content):
    (folder / "pricekit.toml").write_text(content)
    return read_project(folder)


def test_a_missing_project_file_is_empty(tmp_path):
    assert read_project(tmp_path) == Project()


def test_a_table_with_reading_options_and_settings(tmp_path):
    found = _write(
        tmp_path,
        'policy = "fast"\n[table]\npath = "data/shop.csv"\ndecimal = ","\n[columns]\nprice = "eur"\n',
    )
    assert found.table == tmp_path / "data/shop.csv"
    assert found.read_options == {"decimal": ","}
    assert found.settings == {"policy": "fast", "columns": {"price": "eur"}}


def test_a_table_can_be_only_a_path(tmp_path):
    assert _write(tmp_path, 'table = "shop.csv"\n') == Project(tmp_path / "shop.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[tabel]\npath = 'a.csv'\n", "Did you mean 'table'?"),
        ("[table]\npaht = 'a.csv'\n", "did you mean 'path'?"),
        ("[table]\npath = 'a.csv'\nencodng = 'x'\n", "did you mean 'encoding'?"),
        ("[table]\npath = 3\n", "path is 3"),
        ("table = 3\n", "[table]"),
        ("trainig = 3\n", "Did you mean 'training'?"),
        ("= 3\n", "is not valid TOML"),
    ],
)
def test_mistakes_name_the_file_and_the_nearest_key(tmp_path, content, message):
    with pytest.raises(ConfigError) as caught:
        _write(tmp_path, content)
    assert message in str(caught.value)
    assert "pricekit.toml" in str(caught.value)


def test_written_values_are_read_back(tmp_path):
    update_project(
        tmp_path / "pricekit.toml",
        "shop.csv",
        {"delimiter": "\t", "columns": ["a", "b"], "decimal": None},
        {"text": ["a"], "price": "b", "id": None},
    )
    assert read_project(tmp_path) == Project(
        tmp_path / "shop.csv",
        {"delimiter": "\t", "columns": ["a", "b"]},
        {"columns": {"text": ["a"], "price": "b"}},
    )


def test_other_lines_of_the_file_are_kept(tmp_path, raises):
    path = tmp_path / "pricekit.toml"
    path.write_text('# mine\npolicy = "fast"\n\n[columns]\nprice = "old"\n\n[training]\nepochs = 3  # few\n')
    with raises(ConfigError, "overwrite"):
        update_project(path, "shop.csv", {}, {"price": "new"})
    update_project(path, "shop.csv", {}, {"price": "new"}, overwrite=True)
    text = path.read_text()
    assert "# mine" in text
    assert "epochs = 3  # few" in text
    assert read_project(tmp_path).settings["columns"] == {"price": "new"}


def test_a_file_that_cannot_be_edited_is_unchanged(tmp_path, raises):
    path = tmp_path / "pricekit.toml"
    path.write_text('columns.price = "old"\n')
    with raises(ConfigError):
        update_project(path, "shop.csv", {}, {"price": "new"}, overwrite=True)
    assert path.read_text() == 'columns.price = "old"\n'


def test_an_error_of_the_file_names_no_other_parameter(tmp_path, raises):
    with raises(ConfigError):
        _write(tmp_path, "[table")


def test_a_misspelt_column_is_an_error_for_every_command(tmp_path, raises):
    with raises(ConfigError):
        _write(tmp_path, '[columns]\ntxt = "title"\n')
