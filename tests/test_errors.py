import pickle

from pricekit.errors import BundleError


def test_messages_have_no_control_characters_even_after_pickling():
    error = BundleError("the file '\x1b[2J\u202e\x9b' is damaged", name="\x1b")
    assert str(error) == r"the file '\x1b[2J\u202e\x9b' is damaged"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
