"""The page contains all that it needs, and its policy allows nothing else."""

import base64
import hashlib
import re


def test_the_page_asks_no_other_server(client):
    answer = client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert re.findall(r"(?:src|href|url|import)\s*[=(]", answer.text) == []
    assert "://" not in answer.text
    assert "innerHTML" not in answer.text


def test_the_policy_allows_the_script_and_the_style_of_the_page_alone(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self';")
    for tag in ("script", "style"):
        (block,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.S)
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert re.findall(r" on\w+=| style=", answer.text) == []
