"""Numbers that describe the code, read from the code: what is not found is an error that names it."""
import functools
import os
import pathlib
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CUDA = "src/ops/cuda/"


class Changed(Exception):
    """The sources are not what the model was written by."""


@functools.cache
def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def hold(path, pattern):
    """The match of a regular expression in a source, white space being all alike."""
    found = re.search(re.sub(r"\s+", r"\\s+", pattern), text(path))
    if found is None:
        raise Changed(f"{path} has no `{pattern}`: tools/gpu_cost counts by it")
    return found


@functools.cache
def constant(name, path):
    value = hold(path, rf"\b{name} = ([^;]+);")[1]
    value = re.sub(r"std::\w+\{(\d+)\}", r"\1", value)
    if not re.fullmatch(r"[\d\s+*/<>()-]+", value):
        raise Changed(f"{path}: {name} = {value} is no number that tools/gpu_cost can read")
    return int(eval(value))  # pylint: disable=eval-used  # digits and operators alone, by the line above


@functools.cache
def tile(name, path, zeros=False):
    """The numbers of `using NAME = Tile<...>`; of codes for a form with zeros or without."""
    inside = hold(path, rf"using {name} = Tile<([^;]+)>;")[1]
    numbers = []
    for word in inside.split(","):
        word = word.strip()
        if word in ("Form",):
            continue
        if choice := re.fullmatch(r"Form::kZeros \? (\d+) : (\d+)", word):
            word = choice[1] if zeros else choice[2]
        if word.startswith("k"):
            word = str(constant(word, CUDA + ("products/gemm_tiles.h" if word == "kMaxSlices" else "layers/expert_kernels.h")))
        numbers.append(int(word))
    return tuple(numbers)


@functools.cache
def kernel_source(stem):
    """Where the source of an object lies among the rooms of src/ops/cuda."""
    found = [str(path.relative_to(ROOT)) for path in pathlib.Path(ROOT, CUDA).rglob(stem + ".cu")]
    if len(found) != 1:
        raise Changed(f"{CUDA} has {len(found)} sources {stem}.cu")
    return found[0]


def kernels_of_header():
    """The launch functions that the kernels' headers declare."""
    names = set()
    for header in sorted(pathlib.Path(ROOT, CUDA).rglob("*.h")):
        names.update(re.findall(r"^void (launch_\w+)\(", text(header.relative_to(ROOT)), re.MULTILINE))
    return names


DECODER = "src/model/blocks/text_decoder.cc"
# What steps.py, products.py, attention.py and rows.py do as the launches do it. The test looks for each.
HELD = [
    (CUDA + "products/gemm_tiles.h", r"is_sliced\(std::int64_t out\) \{ return out < 3072; \}"),
    (CUDA + "products/gemm_tiles.h", r"return out >= 264 \* tile_cols;"),
    (CUDA + "products/gemm_tiles.h", r"if \(args.y.rows > 64\) sliced \? by.template operator\(\)<LargeTileOfSlices, true>\(\) "
                            r": by.template operator\(\)<LargeTile, false>\(\); else if \(args.y.rows > 16\)"),
    (CUDA + "products/gemm_tiles.h", r"kStride = kDepth \+ 8;"),
    (CUDA + "products/gemm_tiles.h", r"kThreads = kSlices \* kSliceThreads;"),
    (CUDA + "products/gemm_codes.cu", r"!blocks && args.y.rows <= 32"),
    (CUDA + "products/gemm_codes.cu", r"weight.rows < 132 \* 64 \? by.template operator\(\)<Few, true>\(\) : by.template operator\(\)<FewOfMany, true>\(\)"),
    (CUDA + "products/gemm_codes.cu", r"args.y.rows <= 64 && weight.rows < 132 \* 128"),
    (CUDA + "products/gemm_e4m3.cu", r"args.y.cols < 264 \* 64"),
    (CUDA + "products/gemm_e4m3.cu", r"args.y.rows <= 64 && args.y.cols < 132 \* 128"),
    (CUDA + "attention/attention_fetch.h", r"kTokens = kDim > 128 \? 32 : 64;"),
    (CUDA + "attention/attention_few.h", r"kPlaces = 5;"),
    (CUDA + "attention/attention_launch.h", r"kSharedBytes = kQueryBytes<kDim> \+ 2 \* AttentionStage<Of, kDim>::kBytes;"),
    (CUDA + "attention/attention_tiles.h", r"kQueriesInRegisters = kDim <= 96;"),
    (CUDA + "attention/attention_splits.cc", r"splits \* call.kv_heads \* \(call.least_parts > 0 \? 4 : 5\) / \(4 \* kAttentionBlocks\);"),
    (CUDA + "libraries/flash_plan.h", r"return \(keys \+ form.key_rows - 1\) / form.key_rows \* form.key_rows \+ form.query_rows;"),
    (CUDA + "attention/attention_merge.cu", r"join_row<kWidth, kCoded, \(kWidth > 128 \? 8 : 16\)>"),
    (CUDA + "rows/norm_sum.h", r"return cols <= std::int64_t\{32\} \* pack \* 2 \? 32 : kNormBlock;"),
    (CUDA + "products/qkv.cu", r"each = heads \+ \(args.v.data != nullptr \? 2 : 1\) \* kv_heads;"),
    (CUDA + "rows/grid.h", r"blocks < 16384 \? blocks : 16384"),
    (CUDA + "rows/row_stats.cu", r"constexpr int kBlock = 1024;"),
    (CUDA + "rows/sample.cu", r"while \(threads < kMaxThreads && threads \* 8 < args.logits.cols\) threads \*= 2;"),
    (CUDA + "rows/sample.cu", r"by_rank && of.top_k == 1"),
    (CUDA + "libraries/flash_attention.h", r"kFlashRows = 128;"),
    (DECODER, r"stream.normed_gemm\(\{norm, product\}\);"),
    (DECODER, r"stream.qkv\(\{.plan = &plan,"),
    (DECODER, r"stream.normed_mlp\(\{.norm = norm,"),
    (CUDA + "products/cuda_fused.cc", r"if \(!gated_product\(&args.norm, args.mlp\)\) return Stream::normed_mlp\(args\);"),
    (CUDA + "products/cuda_fused.cc", r"if \(!gated_product\(nullptr, args\)\) return Stream::mlp\(args\);"),
    (CUDA + "products/few_gemm.cu", r"shared_bytes<decltype\(tile\)>\(args\) <= 101376 && \(args.norm == nullptr \|\| packs <= kMaxNormPacks \* tile.kThreads\);"),
    (CUDA + "attention/attention_parts.h", r"return \(merge.rows \+ 3\) / 4 \* \(\(merge.splits \+ kJoinedAhead - 1\) / kJoinedAhead\) <= kMaxJoinTrips;"),
    ("src/model/blocks/blocks.h", r"kMlpRows = 2048;"),
    ("src/model/towers/vision_stack.cc", r"for \(; begin < end; begin \+= kMlpRows\)"),
    (CUDA + "libraries/product_choice.cc", r"for \(std::size_t at = 1; at < kRowClassCount; \+\+at\)"),
    (CUDA + "libraries/product_table.h", r"kClearlyQuicker = 1.4;"),
    (CUDA + "libraries/product_table.h", r"kMaxTimedRows = 256;"),
]


def models():
    """Widths of the language models, as benchmarks/gpu measures them."""
    path = "benchmarks/gpu/model_widths.h"
    hold(path, r"hidden; std::int64_t heads; std::int64_t kv_heads; std::int64_t head_dim; std::int64_t inner;")
    found = {}
    for which in ("7B", "2B"):
        numbers = hold(path, rf'\{{"{which}", ([\d, ]+)\}};')[1]
        found[which] = dict(zip(("hidden", "heads", "kv_heads", "dim", "inner", "vocab"), map(int, numbers.split(","))), layers=28)
    return found
