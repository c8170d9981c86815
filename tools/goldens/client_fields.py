"""What clients can put into a request: tests/golden/client_fields.json.

python3 -m venv V && V/bin/pip install openai==3.57.0 anthropic==2.14.0 && V/bin/python tools/goldens/client_fields.py

Of openai and anthropic every member of the clients' own request types. Of vLLM the fields of its request classes, read
off its protocol files (chat_completion, completion, responses, anthropic, pooling and tokenize, of 0.32 and later).
Of llama-server, TEI, Jina and Cohere what their references name for the same paths.
"""

import json
import typing
from pathlib import Path

from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import message_create_params as beta_params
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden"

VLLM_SAMPLING = """use_beam_search top_k min_p repetition_penalty watermarking length_penalty stop_token_ids
    include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens
    truncate_prompt_tokens truncation_side prompt_logprobs logprob_token_ids allowed_token_ids bad_words"""
VLLM_COMMON = """structured_outputs priority request_id session_id return_tokens_as_token_ids return_token_ids
    routed_experts_prompt_start return_token_offsets return_mm_kwargs cache_salt kv_transfer_params ec_transfer_params
    vllm_xargs repetition_detection stream_interval thinking_token_budget add_special_tokens response_format
    guided_json guided_regex guided_choice guided_grammar guided_decoding_backend guided_whitespace_pattern
    logits_processors"""
VLLM_POOLING = """model user truncate_prompt_tokens truncation_side request_id priority mm_processor_kwargs cache_salt
    chat_template chat_template_kwargs media_io_kwargs"""
VLLM_VECTORS = "dimensions add_special_tokens normalize use_activation padding messages embed_dtype endianness"
VLLM = {
    "chat": VLLM_SAMPLING + " " + VLLM_COMMON + """ include_reasoning reasoning_effort echo add_generation_prompt
        continue_final_message documents chat_template chat_template_kwargs media_io_kwargs mm_processor_kwargs
        return_prompt_text best_of""",
    "completions": VLLM_SAMPLING + " " + VLLM_COMMON + " prompt_embeds best_of",
    "responses": """logit_bias top_k skip_special_tokens include_stop_str_in_output request_id mm_processor_kwargs priority
        cache_salt enable_response_messages previous_input_messages previous_response structured_outputs
        repetition_penalty seed stop ignore_eos vllm_xargs""",
    "messages": "top_k kv_transfer_params chat_template_kwargs",
    "embeddings": VLLM_POOLING + " " + VLLM_VECTORS,
}
# Kinds of which no client has a type of its own.
OTHERS = {
    "pooling": VLLM_POOLING + " " + VLLM_VECTORS + " task input encoding_format",
    "score": VLLM_POOLING + """ text_1 text_2 queries documents items data_1 data_2 softmax activation use_activation
        instruction max_tokens_per_query max_tokens_per_doc""",
    "rerank": VLLM_POOLING + """ query documents top_n softmax activation use_activation instruction
        max_tokens_per_query max_tokens_per_doc return_documents texts return_text rank_fields max_chunks_per_doc""",
    "tokenize": """model prompt messages add_special_tokens return_token_strs add_generation_prompt continue_final_message
        chat_template chat_template_kwargs mm_processor_kwargs media_io_kwargs tools content add_special parse_special
        with_pieces""",
    "detokenize": "model tokens",
}


def members(kind) -> set[str]:
    if typing.get_origin(kind) is typing.Union or type(kind).__name__ == "UnionType":
        return set().union(*(members(one) for one in typing.get_args(kind)))
    return set(typing.get_type_hints(kind))


def main() -> None:
    clients = {
        "chat": [chat_params.CompletionCreateParams],
        "completions": [completion_create_params.CompletionCreateParams],
        "responses": [response_create_params.ResponseCreateParams],
        "messages": [message_create_params.MessageCreateParams, beta_params.MessageCreateParams,
                     message_count_tokens_params.MessageCountTokensParams],
        "embeddings": [embedding_create_params.EmbeddingCreateParams],
    }
    rows = {kind: sorted(set().union(*(members(one) for one in types), VLLM[kind].split()))
            for kind, types in clients.items()}
    rows |= {kind: sorted(set(names.split())) for kind, names in OTHERS.items()}
    (GOLDEN / "client_fields.json").write_text(json.dumps(rows, indent=1) + "\n")
    print({kind: len(names) for kind, names in rows.items()})


if __name__ == "__main__":
    main()
