"""The public functions of pricekit: `import pricekit as pk`. Each command calls the function with the same name.

Functions import heavy libraries only when they need them. So `import pricekit` is fast, and prediction from a bundle
works without torch.

Tables, files to write and models that are read may be at addresses such as `s3://shop/new.csv` (docs/remote.md).
"""
