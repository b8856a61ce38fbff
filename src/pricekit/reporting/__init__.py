"""The report on a model: one HTML file without scripts from elsewhere.

| module | purpose |
|---|---|
| build.py | what the report shows, from a model and a table |
| sections.py | the sections, in their order |
| blocks.py | what a section consists of: paragraphs, tables, pictures, rows |
| drift.py | the sections of the page about drift |
| pictures.py | plots as SVG |
| page.py | blocks to HTML |
| template/ | the page, its style, and the script that sorts tables |
"""
