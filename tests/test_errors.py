import pickle

from pricekit.errors import BundleError


def test_messages_have_no_control_characters_even_after_pickling():
    error = BundleError("the file '\x1b[2J\u202e\x9b' is damaged", parameters=("path",), name="\x1b")
    assert str(error) == r"the file '\x1b[2J\u202e\x9b' is damaged"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.parameters, copy.facts) == (str(error), ("path",), {"name": "\x1b"})
