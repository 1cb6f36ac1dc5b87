"""`hab` as it is, which says at its end how many parts of its store it opened. Imports nothing that `hab` does not."""

import sys
from typing import Any

PARTS_OPENED = "parts opened: "


def main() -> None:
    """Run `hab` with this command line."""
    opened: set[str] = set()

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and "/store/" in str(arguments[0]) and str(arguments[0]).endswith(".parquet"):
            opened.add(str(arguments[0]))

    sys.addaudithook(see)
    from hab_ray.cli.main import main as hab

    try:
        hab()
    finally:
        print(f"{PARTS_OPENED}{len(opened)}")


if __name__ == "__main__":
    main()
