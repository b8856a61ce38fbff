"""Sphinx configuration of the documentation site: `python -m sphinx -W -n -c docs/site . build/site`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
ROOT = Path(__file__).parents[2]

project = "pricekit"
author = "the pricekit authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "generate"]

# The pages are the Markdown files that GitHub shows, where they lie.
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/lab/*.md",
    "docs/reference/*.md",
    "docs/plugins/*.md",
    "examples/README.md",
    "plugins/*/README.md",
]
exclude_patterns = [".*", "build", "dist", "src", "tests", "benchmarks", "plugins/*/[!R]*"]
highlight_language = "text"
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
smartquotes = False  # options and quoted messages stay as they are printed
suppress_warnings = ["toc.not_included"]  # tests/test_docs.py checks this, with a clearer message

# Docstrings are plain text in Google style, with single backticks around code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88
nitpick_ignore_regex = [
    ("py:.*", r"(?!pricekit\.).*"),  # libraries, whose references need a network
    ("py:class", r".*"),  # types in signatures, which nobody writes as a reference; some are private
]

html_theme = "furo"
html_title = "pricekit"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "site" / "scorer.js")
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
