"""The policy `scratch` against `quick` for the backbones without pretrained weights.

python benchmarks/scratch.py ../shared/data/amazon2025/train.csv
python benchmarks/scratch.py ../shared/data/amazon2025/train.csv --limit 1500 --seeds 0 --max-length 64
python benchmarks/scratch.py ../shared/data/amazon2025/train.csv --backbone mlp --features optimized22,columns

For each backbone the base of the differences is `quick`. Without `--features`, both have the feature `trees`, whose own
estimate of the price is mixed in, so differences between networks look smaller.
"""

from over_seeds import compare, parser_of

BACKBONES = ("lstm", "transformer", "mlp")


def main() -> None:
    """Parse the command line and print a table for each backbone."""
    parser = parser_of(__doc__)
    parser.add_argument("--backbone", choices=BACKBONES, nargs="+", default=BACKBONES)
    parser.add_argument("--features", help="separated by commas; default: those of the policies")
    given = parser.parse_args()
    chosen = {"features": given.features.split(",")} if given.features else {}
    for backbone in given.backbone:
        policies = {
            f"{backbone}, {policy}": {"policy": policy, "backbone": backbone, **chosen}
            for policy in ("quick", "scratch")
        }
        compare(given, policies)


if __name__ == "__main__":
    main()
