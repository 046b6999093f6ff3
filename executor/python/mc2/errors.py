"""The exceptions that mc2 raises."""


class Error(Exception):
    """A request that mc2 refuses. The message says what is wrong and what would be right.

    code   stable name, e.g. "invalid_spec", "not_found", "stale" (docs/python.md)
    field  the offending field, option or file; may be empty
    """

    def __init__(self, code: str, field: str, message: str) -> None:
        super().__init__(code, field, message)
        self.code = code
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class NativeError(RuntimeError):
    """A call of a library, device or file failed."""

    def __init__(self, call: str, native_code: int, text: str) -> None:
        super().__init__(call, native_code, text)
        self.call = call
        self.native_code = native_code
        self.text = text

    def __str__(self) -> str:
        return self.text
