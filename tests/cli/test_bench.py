import json

TINY = (
    *("--backbone", "transformer", "--set", "backbone.width=16", "--set", "backbone.layers=1"),
    *("--set", "backbone.vocab_size=300", "--features", "fast15", "--max-length", "32"),
    *("--set", "training.batch_size=8", "--rows", "16", "--repeats", "1"),
)


def test_json_holds_every_measure(pricekit):
    code, out, err = pricekit("bench", "train", *TINY, "--peer", "bare", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["facts"]["rows of a round"] == 16
    assert found["facts"]["tokens computed for each real one, whole table"] >= 1
    assert [line["name"] for line in found["peers"]] == ["torch alone, same batches"]
    assert found["peers"][0]["times"] > 0
    assert found["switches"] == []


def test_rows_come_from_a_table(pricekit, catalog):
    code, out, err = pricekit("bench", "train", catalog, *TINY)
    assert code == 0, err
    assert "real tokens/s" in out
    assert "tokens computed for each real one" in out


def test_a_token_budget_is_timed(pricekit):
    code, out, err = pricekit("bench", "train", *TINY, "--set", "training.batch_tokens=128", "--json")
    assert code == 0, err
    assert json.loads(out)["own"]["rows_per_second"] > 0


def test_bag_has_no_peers(pricekit):
    code, _, err = pricekit(
        "bench", "train", "--rows", "16", "--peer", "hf", "--set", "backbone.vocab_size=500"
    )
    assert code == 1
    assert "sparse gradients" in err
