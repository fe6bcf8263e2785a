"""The vocabulary of failures."""

from __future__ import annotations

import pytest

from mailkeep.errors import MailkeepError, ReaderError, all_error_classes


@pytest.mark.spec("MCP-130")
def test_codes_have_five_digits_and_belong_to_one_class_each() -> None:
    """A code is allocated once, is inherited by nobody, and is explained by its class."""
    classes = all_error_classes()
    codes = [cls.code for cls in classes]
    assert len(codes) == len(set(codes))
    for cls in classes:
        assert 10000 <= cls.code <= 99999
        assert "code" in vars(cls), f"{cls.__name__} inherits its code"
        assert cls.__doc__


@pytest.mark.spec("MCP-131")
def test_the_published_category_is_the_reader_family() -> None:
    """Exactly the reader errors have codes of category 5."""
    for cls in all_error_classes():
        assert issubclass(cls, ReaderError) is (cls.code // 10000 == 5)


def test_a_failure_shows_its_message() -> None:
    """What is raised reads as its operator-safe sentence."""
    assert str(MailkeepError("a sentence")) == "a sentence"
