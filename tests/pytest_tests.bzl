"""py_test targets for the test files of a folder, run by pytest."""

def pytest_tests(data = [], size = "medium"):
    """One py_test for each test_*.py of the folder, and a library of what they share.

    Args:
        data: labels that the tests read or run.
        size: Bazel's size of each test, which sets its time limit.
    """
    native.py_library(
        name = "shared",
        srcs = native.glob(
            ["*.py"],
            exclude = ["test_*.py", "run_pytest.py"],
        ),
        data = native.glob(["*.npz", "*.bin", "model_garden/**"]),
        visibility = ["//tests:__subpackages__"],
    )
    folders = {"tests": None, "tests/golden": None}
    folders[native.package_name()] = None
    for path in native.glob(["test_*.py"]):
        native.py_test(
            name = path[:-len(".py")],
            size = size,
            srcs = [path, "//tests:run_pytest.py"],
            args = ["$(location %s)" % path],
            data = data,
            main = "//tests:run_pytest.py",
            deps = ["//keras_bert_impl"] + ["//%s:shared" % folder for folder in folders],
        )
