"""A column of sentences: its tokens, its known words, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.tables.column_plan import tokens_of
from fedloom.data.tables.text_column import Text, read_vocabulary, text_settings

TEXTS = ["Good film, good plot.", "A bad film!", "the plot was bad", "Café and film", ""]


def write_table(path: Path, rows: int = 60, more: str = "") -> Path:
    lines = [f"review,label,site{',' + more if more else ''}"]
    lines += [f'"{TEXTS[n % 5]}",{n % 2},s{n % 3}{f",{n * 0.37:.2f}" if more else ""}' for n in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_tokens_are_words_and_marks_in_lower_case():
    assert tokens_of("Good film, it's 9/10!") == ["good", "film", ",", "it", "'", "s", "9", "/", "10", "!"]
    assert tokens_of("Cafe\u0301") == tokens_of("CAFÉ") == ["café"]
    assert tokens_of("  \n") == []


def test_the_known_words_are_those_of_the_training_rows(tmp_path):
    made = fl.read(write_table(tmp_path / "a.csv"), client="site", text="review")
    (column,) = made.plan.columns
    own = {word for row in made.train.order.tolist() for word in tokens_of(TEXTS[row % 5])}
    assert set(column.levels) == own
    assert column.length == 6
    first = made.columns["x"][0].tolist()
    assert [column.levels[number - 2] for number in first if number] == ["good", "film", ",", "good", "plot", "."]
    assert made.columns["x"][4].tolist() == [0] * 6
    assert made.notes[1].startswith("review: text; 12 words are known, and the first 6 of a text are read")
    assert fl.task_of(made).model.embedding.num_embeddings == made.plan.words == 14


def test_a_word_of_a_test_row_alone_is_unknown(tmp_path):
    lines = [f"common word{n},{n % 2},s{n % 3}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["review,label,site", *lines]) + "\n")
    made = fl.read(tmp_path / "a.csv", client="site", text="review")
    train = set(made.train.order.tolist())
    assert set(made.plan.columns[0].levels) == {"common", *(f"word{row}" for row in train)}
    assert made.columns["x"][[row for row in range(60) if row not in train], 1].unique().tolist() == [1]


def test_rare_words_and_long_texts_are_cut_and_the_notes_say_so(tmp_path):
    path = write_table(tmp_path / "a.csv")
    made = fl.read(path, client="site", text={"column": "review", "words": 3, "length": 4})
    assert len(made.plan.columns[0].levels) == 3
    assert made.columns["x"].shape == (60, 4)
    assert int(made.columns["x"].max()) <= 4
    assert "3 most frequent of 12 words are known, and the first 4 of a text are read (" in made.notes[1]


def test_words_of_a_file_are_agreed_and_none_of_the_data_is_stored(tmp_path):
    (tmp_path / "words.txt").write_text("film\nplot\n\nmusic\nfilm\n")
    path = write_table(tmp_path / "a.csv")
    made = fl.read(path, client="site", text={"column": "review", "vocabulary": str(tmp_path / "words.txt")})
    assert made.plan.columns[0].levels == ("film", "music", "plot")
    for content, sentence in (
        ("Good\n", "line 1 of the vocabulary words.txt is 'Good', which is no single token in lower case"),
        ("\n", "the vocabulary words.txt has no words"),
    ):
        (tmp_path / "words.txt").write_text(content)
        with pytest.raises(FedloomError, match=sentence):
            read_vocabulary(tmp_path / "words.txt")
    with pytest.raises(FedloomError, match=r"none\.txt does not exist: give a file with a word per line"):
        read_vocabulary(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("more", "options", "sentence"),
    [
        ("age", {}, r"beside the text 'review' there are the inputs age, .*--ignore age \(ignore="),
        ("", {"text": "revue"}, "a.csv has no column 'revue': its columns are review, label, site"),
        ("", {"text": "label"}, "the text 'label' is also the target, client or group"),
        ("", {"text": {"column": "review", "words": 0}}, "words"),
        ("", {"text": 3}, "give the name of a column, or a table, for instance"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path, more, options, sentence):
    path = write_table(tmp_path / "a.csv", more=more)
    with pytest.raises(FedloomError, match=sentence) as caught:
        fl.read(path, **{"client": "site", "text": "review", **options})
    assert "\n" not in str(caught.value)


def test_sentences_that_are_left_out_come_with_the_setting_that_reads_them(tmp_path):
    draw = np.random.default_rng(0)
    lines = ["review,age,label,site"]
    lines += [f"{' '.join(draw.choice(list('abcdefgh'), 6))},{n * 0.7:.1f},{n % 2},s{n % 3}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    notes = fl.read(tmp_path / "a.csv", client="site").notes
    assert any(
        "like sentences: --text review (text='review') reads them, and no other column" in note for note in notes
    )


def test_arrays_have_no_text():
    with pytest.raises(FedloomError, match="text= names a column of a table, but these samples are arrays"):
        fl.read([(np.zeros((9, 2)), np.arange(9) % 2)] * 2, text="review")


def test_a_name_is_short_for_a_table():
    assert text_settings("review") == Text("review") == text_settings(Text("review"))
    assert text_settings(None) is None
