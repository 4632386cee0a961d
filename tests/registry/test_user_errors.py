"""What a user's code raised is told with the line of her own file, not of the libraries that it called."""

from fedloom.registry.user_errors import WorkerError, describe_error, describe_user_error

FILE = """import torch


def multiply():
    return torch.zeros(2, 3) @ torch.zeros(2, 3)
"""


def raised_by(code, name):
    try:
        exec(compile(FILE, name, "exec"), code)  # noqa: S102
        code["multiply"]()
    except RuntimeError as error:
        return describe_error(error)


def test_the_place_is_the_last_line_of_the_users_file(tmp_path):
    said = raised_by({}, str(tmp_path / "net.py"))
    assert said.startswith("RuntimeError: ")
    assert said.endswith("(net.py, line 5)")


def test_without_a_line_of_the_user_there_is_no_place():
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(KeyError("row")) == "KeyError: 'row'"


def test_an_exception_that_did_not_go_through_the_users_code_is_not_hers():
    assert describe_user_error(KeyError("row")) is None
    assert describe_user_error(WorkerError("Traceback ...", None)) is None
    assert describe_user_error(WorkerError("Traceback ...", "KeyError (net.py, line 5)")) == "KeyError (net.py, line 5)"
