"""Writing, whatever is at the other end."""

import io
import os

from dask_fleet.cli.output import Output


def test_without_a_file_descriptor() -> None:
    stream = io.StringIO()
    Output(stream).write("text\n")
    assert stream.getvalue() == "text\n"


def test_what_the_stream_cannot_show() -> None:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="ascii")
    output = Output(stream)
    output.write("größer\n")
    stream.flush()
    assert output.ascii_only
    assert data.getvalue() == b"gr??er\n"


def test_nobody_reads_any_more() -> None:
    """1. Close the reader. 2. Write twice. No error, and Python's flush succeeds."""
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        os.close(reader)
        output = Output(stream)
        output.write("first\n")
        output.write("second\n")
        print("third", file=stream, flush=True)


def test_a_pipe_that_must_not_block() -> None:
    """1. Fill a non-blocking pipe. 2. Write more while it is read. All arrives."""
    import threading

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    text = "x" * 300_000
    read: list[bytes] = []

    def drain() -> None:
        with open(reader, "rb") as source:
            read.append(source.read())

    thread = threading.Thread(target=drain)
    with open(writer, "w") as stream:
        thread.start()
        Output(stream).write(text)
    thread.join()
    assert read == [text.encode()]
