"""Requests: what is asked of a run (a file in `requests/`) and of the engine's short verbs.

A short verb is `python -m zeroboard.engine <verb>`: it reads one request (a line of JSON) from standard input, writes
`Progress` lines and last one `Answer` line to standard output (nothing else there), its log to standard error, and
exits 0. Chat stays: see `ChatAsk`.
"""

from __future__ import annotations

import logging
import time
from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from zeroboard.contract.base import Record
from zeroboard.contract.mix import PLAIN, Mix
from zeroboard.contract.plan import Dtype
from zeroboard.contract.problems import Problem, Scalar
from zeroboard.contract.reports import Kind
from zeroboard.files import read_whole
from zeroboard.paths import RunPaths

log = logging.getLogger(__name__)


class StopRequest(Record):
    """`requests/stop.json`: leave at the next step."""

    discard: bool = False
    time: float


def read_stop(run: RunPaths) -> StopRequest | None:
    """The stop that was asked of a run, if one was; a request that cannot be read is one to save."""
    try:
        return StopRequest.model_validate_json(read_whole(run.stop_request))
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as error:
        log.warning("the request to stop cannot be read, so it is taken as one to save: %s", error)
        return StopRequest(time=time.time())


class ConvertRequest(Record):
    """Verb `convert`: prepare a bundled model as safetensors."""

    name: str
    target: str
    """The folder in `cache/models/`, absolute; appears whole or not at all."""


class TokeniseRequest(Record):
    """Verb `tokenise`: render, tokenise and mask a data file. Answer: `TokenFacts`."""

    data_path: str
    model_path: str
    max_length: int
    evaluation: float = 0.0
    """Share of the rows that is held out."""
    seed: int = 0
    """Decides which rows are."""
    columns: dict[str, str] = {}
    """What columns of the file mean, our name → theirs."""
    mix: Mix = PLAIN
    """What is tokenised together with it, by absolute paths."""
    target: str
    """The folder in `cache/tokens/`, absolute; appears whole or not at all."""
    trust_remote_code: bool = False


class TrainedRows(Record):
    """What a run was trained on: some of it is tokenised once more by the tokenizer that was saved."""

    data_path: str
    unchanged: bool
    """The file is still the one that was tokenised."""
    tokens: str
    """The folder in `cache/tokens/`."""
    max_length: int
    columns: dict[str, str] = {}
    """What columns of the file mean, our name → theirs."""
    mix: Mix = PLAIN
    """What was trained on together with it, by absolute paths."""


class VerifyRequest(Record):
    """Verb `verify`: files, then reload in this fresh process. Answer: `VerifyReport`."""

    path: str
    base: str | None = None
    """Of an adapter; for a full model the one that it was before, to measure what the training changed."""
    load: bool = True
    rows: TrainedRows | None = None
    """Heard with `load`."""
    prompts: tuple[str, ...] = ()
    """A person's own, asked after the fixed ones; heard with `load`."""
    trust_remote_code: bool = False


class MergeRequest(Record):
    """Verb `merge`: an adapter into its base. Answer: `MergeReport`."""

    path: str
    """The adapter."""
    base: str | None = None
    """None: the one that the adapter names."""
    target: str
    """The folder of the merged model, absolute; appears whole or not at all."""
    dtype: Dtype | None = None
    """None: each tensor keeps the type that it has in the base."""
    shard_bytes: int = 5_000_000_000
    trust_remote_code: bool = False


class CompareRequest(Record):
    """Verb `compare`: a merged model against the adapter on its base. Answer: `VerifyReport`."""

    merged: str
    path: str
    """The adapter."""
    base: str | None = None
    trust_remote_code: bool = False


class ConsolidateRequest(Record):
    """Verb `consolidate`: the states of a ZeRO checkpoint become a model or an adapter. Answer: `Consolidation`."""

    path: str
    """The checkpoint, absolute: the folder that holds `latest`, or the states themselves."""
    target: str
    """The folder to write, absolute; appears whole or not at all."""
    dtype: Dtype = "bf16"
    shard_bytes: int = Field(default=5_000_000_000, gt=0)
    """Where a file of weights ends and the next begins."""
    runs: str | None = None
    """The folder of this installation's own runs; pickles that lie there need no `trust_pickles`."""
    trust_pickles: bool = False
    """A person has said that the pickles of this folder may be read (with an allow-list; nothing in them is run)."""
    home: str | None = None
    """A folder with config and tokenizer for a checkpoint that has none of its own: the model that was trained."""


class ExportRequest(Record):
    """Verb `export`: a checkpoint, an adapter or a model becomes a folder for others. Answer: `Exported`."""

    path: str
    target: str
    """The folder to write, absolute; appears whole or not at all."""
    base: str | None = None
    """Of an adapter; of a checkpoint, the model that was trained."""
    merge: bool = False
    """An adapter goes into its base."""
    adapter: str | None = None
    """Where the adapter is left that ZeRO states become on the way to a merge, so that the result can be held against
    it; None: it is removed."""
    dtype: Dtype | None = None
    """None: each tensor keeps its type (ZeRO states: bf16)."""
    shard_bytes: int = Field(default=5_000_000_000, gt=0)
    runs: str | None = None
    """As in `ConsolidateRequest`, like `trust_pickles`."""
    trust_pickles: bool = False
    trust_remote_code: bool = False
    published: bool = False
    """It is sent to a hub when it is done: no link that leads out of a folder is followed."""


class Exported(Record):
    """What the verb `export` has written."""

    kind: Kind
    stops: tuple[str, ...] = ()
    """The tokens that end an answer, as text."""
    template: Literal["chatml", "other"] | None = None
    """Whose form the chat template has; None: it has none that renders."""
    system: str | None = None
    """The system turn that the template writes where a conversation has none."""
    notes: tuple[Problem, ...] = ()


class SchemaRequest(Record):
    """Verb `schema`: which keys the installed DeepSpeed reads. Answer: `Schema`."""


class ToolchainRequest(Record):
    """Verb `toolchain`: what torch and DeepSpeed's operator builders say here. Answer: `Toolchain`."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Whose builders are asked."""


class ChatOpen(Record):
    """Verb `chat`, first line of standard input: which model to hold."""

    path: str
    base: str | None = None
    trust_remote_code: bool = False


class Message(Record):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatAsk(Record):
    """Verb `chat`, each further line: a question (or a `ChatStop`)."""

    kind: Literal["ask"] = "ask"
    id: str
    messages: tuple[Message, ...]
    compare: bool = False
    """Answer with the base first, then with the tuned model."""
    max_new_tokens: int = 256
    temperature: float = 0.0
    """0: the most likely token each time."""
    top_p: float = 1.0
    seed: int = 0
    raw: bool = False
    """Continue the last message's text as it stands, without a template: for models that know no conversation."""


class ChatStop(Record):
    """Verb `chat`: end every answer that was asked for before this line; the model stays loaded."""

    kind: Literal["stop"] = "stop"


ChatLine = Annotated[ChatAsk | ChatStop, Field(discriminator="kind")]
CHAT_LINE: TypeAdapter[ChatLine] = TypeAdapter(ChatLine)
"""Reads a line that is sent to an open chat."""


class Progress(Record):
    """A line of a verb on its way."""

    kind: Literal["progress"] = "progress"
    phase: str
    done: float | None = None
    says: str | None = None
    params: dict[str, Scalar] = {}


class Answer(Record):
    """The last line of a verb: what came out, or the problems that stood in the way."""

    kind: Literal["answer"] = "answer"
    value: JsonValue = None
    problems: tuple[Problem, ...] = ()


class ChatReady(Record):
    """The model is loaded."""

    kind: Literal["ready"] = "ready"
    adapter: bool
    """There is an adapter, or a base beside a full model, so that both can answer (`compare`)."""
    device: str
    template: Literal["model", "chatml"]
    unfit: int = 0
    """Weights that no file held, that found no place, or whose shape is another one: then what answers is not what was
    trained."""


class ChatPrompt(Record):
    """What the model is given, said once before its answer."""

    kind: Literal["prompt"] = "prompt"
    id: str
    text: str
    """The conversation as the template renders it."""
    tokens: int
    stops: tuple[str, ...]
    """The tokens that will end the answer, as text."""


class ChatToken(Record):
    """A piece of an answer."""

    kind: Literal["token"] = "token"
    id: str
    which: Literal["base", "tuned"]
    text: str


class ChatDone(Record):
    """An answer is whole."""

    kind: Literal["done"] = "done"
    id: str
    which: Literal["base", "tuned"]
    tokens: int
    seconds: float
    end: Literal["end-token", "length", "stopped"]


class ChatFailed(Record):
    """The question could not be answered; the model stays loaded."""

    kind: Literal["failed"] = "failed"
    id: str
    says: str
    params: dict[str, Scalar] = {}


VerbLine = Annotated[
    Progress | Answer | ChatReady | ChatPrompt | ChatToken | ChatDone | ChatFailed, Field(discriminator="kind")
]
VERB_LINE: TypeAdapter[VerbLine] = TypeAdapter(VerbLine)
"""Reads a line of a verb's standard output."""
