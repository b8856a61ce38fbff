"""The report on a model: one HTML file without scripts from elsewhere.

| module | purpose |
|---|---|
| subject.py | what a report is about, from a model and a table |
| sections.py | the sections, in their order, with and without prices |
| drift.py | the sections of the page about drift |
| page.py | what a section consists of, such as paragraphs, tables and pictures; the HTML file |
| template/ | the page, its style, and the script that sorts tables |
"""
