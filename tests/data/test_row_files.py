import collections
import json

import numpy as np
import pytest

from keras_bert_impl.data.row_files import INDEX, RowFiles, write_row_files

FEATURES = {"ids": 4, "label": None}
NUM_FILES = 6
ROWS = [7, 0, 5, 9, 3, 6]  # of each file


def rows_of_file(number):
    copy, file = divmod(number, NUM_FILES)
    for row in range(ROWS[file]):
        ids = [1 + copy, 1 + file, row + 1][: 2 + row % 2]
        yield {"ids": ids, "label": [100 * copy + 10 * file + row]}


def write(folder, settings=None, **options):
    write_row_files(folder, settings or {"length": 4}, NUM_FILES, rows_of_file, 2, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    write(path)
    return path


def labels(dataset, count=None):
    dataset = dataset if count is None else dataset.take(count)
    return [int(row["label"]) for row in dataset.as_numpy_iterator()]


def test_in_order_rows_are_as_written(folder):
    rows = RowFiles(folder).rows(FEATURES, seed=0, shuffle=False, repeat=False)
    rows = list(rows.as_numpy_iterator())
    assert [int(row["label"]) for row in rows] == [
        int(row["label"][0]) for file in range(NUM_FILES) for row in rows_of_file(file)
    ]
    assert rows[0]["ids"].tolist() == [1, 1, 0, 0]
    assert rows[0]["padding_mask"].tolist() == [True, True, False, False]
    assert rows[1]["ids"].tolist() == [1, 1, 2, 0]
    assert rows[0]["ids"].dtype == rows[0]["label"].dtype == np.int32


def test_every_row_once_an_epoch_and_copies_in_turn(folder):
    files = RowFiles(folder)
    assert files.num_rows == sum(ROWS)
    found = labels(files.rows(FEATURES, seed=3), 4 * sum(ROWS))
    epochs = [found[i : i + sum(ROWS)] for i in range(0, len(found), sum(ROWS))]
    for number, epoch in enumerate(epochs):
        copy = number % 2
        expected = [100 * copy + 10 * f + r for f in range(NUM_FILES) for r in range(ROWS[f])]
        assert sorted(epoch) == expected
        assert epoch != expected
    assert epochs[0] != epochs[2]
    # Files read together are mixed.
    assert len({label // 10 for label in epochs[0][:8]}) > 2


@pytest.mark.parametrize("shuffle", [True, False])
def test_any_start_is_the_rest(folder, shuffle):
    files = RowFiles(folder)
    whole = labels(files.rows(FEATURES, seed=3, shuffle=shuffle), 4 * sum(ROWS))
    for start in [1, 6, 7, 29, 30, 31, 47, 60, 75, 90]:
        rest = files.rows(FEATURES, seed=3, shuffle=shuffle, start_row=start)
        assert labels(rest, 12) == whole[start : start + 12]


def test_a_late_start_reads_few_files(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files = RowFiles(tmp_path)
    expected = labels(files.rows(FEATURES, seed=0, shuffle=False, start_row=28), 2)
    for number in range(4):  # those before would fail now
        next(tmp_path.glob(f"rows-{number:05d}-*")).write_bytes(b"damaged")
    assert labels(files.rows(FEATURES, seed=0, shuffle=False, start_row=28), 2) == expected


def test_streams_share_the_rows(folder):
    files = RowFiles(folder)
    found = collections.Counter()
    for stream in range(3):
        found.update(
            labels(files.rows(FEATURES, seed=1, repeat=False, stream=stream, num_streams=3))
        )
    assert found == collections.Counter(
        10 * f + r for f in range(NUM_FILES) for r in range(ROWS[f])
    )


def test_writing_goes_on_where_it_was(folder, tmp_path):
    def stop(files, rows):
        if files == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, done=stop)
    with pytest.raises(ValueError, match=r"holds 3 of 12 files\. Run the command"):
        RowFiles(tmp_path)
    first = tmp_path / json.loads((tmp_path / INDEX).read_text())["files"][0]["file"]
    time = first.stat().st_mtime_ns
    write(tmp_path)
    assert first.stat().st_mtime_ns == time
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }


def test_other_settings_are_refused(folder):
    with pytest.raises(ValueError, match=r"other settings\. length: 4, now 5"):
        write(folder, {"length": 5})


def test_what_is_damaged_is_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no rows\.json"):
        RowFiles(tmp_path)
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = next(tmp_path.glob("rows-00002*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"rows-00002.* was written with"):
        RowFiles(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows-00002.* is missing"):
        RowFiles(tmp_path)
    (tmp_path / INDEX).write_text("{")
    with pytest.raises(ValueError, match=r"rows\.json cannot be read"):
        RowFiles(tmp_path)


def test_no_row_at_all(tmp_path):
    with pytest.raises(ValueError, match="make no row"):
        write_row_files(tmp_path, {}, 2, lambda number: [])


def test_a_stream_without_rows_is_refused(folder):
    with pytest.raises(ValueError, match="Stream 1 of 6 has no row"):
        RowFiles(folder).rows(FEATURES, seed=0, stream=1, num_streams=6)
