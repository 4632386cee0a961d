"""A docstring gets the entries of its bases about inherited fields, each once, its own ones last."""

from dataclasses import dataclass

from fedloom.core.inherited_arguments import with_inherited_arguments


@dataclass
class Base:
    """A base.

    Args:
        first: What is first,
            in two lines.
        second: What is second.
    """

    first: int = 0
    second: int = 0


def test_entries_of_the_base_come_first_and_own_ones_replace_them() -> None:
    class More(Base):
        """More.

        Args:
            second: Something else.
            third: What is third.
        """

    assert with_inherited_arguments(More) == (
        "More.\n\n    Args:\n        first: What is first,\n            in two lines.\n"
        "        second: Something else.\n        third: What is third.\n    "
    )


def test_a_class_without_arguments_of_its_own_gets_the_section_and_one_without_words_nothing() -> None:
    class Same(Base):
        """The same."""

    class Silent(Base):
        pass

    assert "Args:\n        first: " in str(with_inherited_arguments(Same))
    assert with_inherited_arguments(Silent) is None
