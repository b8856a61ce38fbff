"""`python -m pricekit`, and `accelerate launch -m pricekit`."""

from pricekit.cli.main import main

if __name__ == "__main__":
    main()
