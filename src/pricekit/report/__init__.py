"""The report on a model: one HTML file without scripts from elsewhere.

| module | purpose |
|---|---|
| sections.py | what a report is about; its sections, in their order, with and without prices |
| drift_page.py | the page about drift |
| page.py | what a section consists of, such as paragraphs, tables and pictures; the HTML file |
| template/ | the page, its style, and the script that sorts and searches tables |
"""
