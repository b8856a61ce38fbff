"""What clipping gradients at 1.0 does to a loss that is multiplied by 100, as in the published systems.

python benchmarks/loss_scale.py ../shared/data/amazon2025/train.csv --policy blazing
python benchmarks/loss_scale.py ../shared/data/amazon2025/train.csv --policy blazing --backbone transformer \\
    --limit 1500 --seeds 0 --max-length 64

AdamW takes the same step whatever the scale of its gradients. So 100 times the loss with gradients clipped at 1.0 is
the loss itself with gradients clipped at 0.01 (tests/training/test_optimizers_clipping.py).
"""

from over_seeds import compare, parser_of

KINDS = {"no clipping": None, "loss, clipped at 1": 1.0, "100 times the loss, clipped at 1": 0.01}


def main() -> None:
    """Parse the command line and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--policy", default="blazing")
    parser.add_argument("--backbone", help="default: that of the policy, whose weights are then needed")
    given = parser.parse_args()
    shared = {"policy": given.policy} | ({"backbone": given.backbone} if given.backbone else {})
    clipped = {name: {**shared, "settings": {"training.max_grad_norm": most}} for name, most in KINDS.items()}
    compare(given, clipped)


if __name__ == "__main__":
    main()
