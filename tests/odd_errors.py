"""An error that no other process can read."""


class OddError(Exception):
    """Cannot be made again from its `args`, as many libraries' errors cannot."""

    def __init__(self, where: str, number: int) -> None:
        super().__init__(f"{where} failed with {number}")
