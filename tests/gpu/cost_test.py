#!/usr/bin/env python3
"""The model of the kernels' cost (tools/gpu_cost): it holds to the sources, and to what no cost can be.

    cost_test.py ROOT
"""
import subprocess
import sys
import unittest
from unittest import mock

ROOT = sys.argv.pop(1)
sys.path.insert(0, ROOT)
sys.dont_write_bytecode = True

from tools.gpu_cost import attention, counts, launches, measured, page, products, rows, sources, steps  # noqa: E402
from tools.gpu_cost.gpu import GPUS, H100, H200  # noqa: E402
from tools.gpu_cost.products import Shape  # noqa: E402

COUNTS = counts.Counts.committed()
ROWS = [1, 2, 15, 16, 17, 33, 64, 65, 128, 256, 257, 512, 1024, 2048, 4096, 8192]
SHAPES = [(3584, 4608), (3584, 3584), (3584, 37888), (18944, 3584), (1536, 2048), (8960, 1536), (3584, 152064)]


def steps_of_all():
    return page.all_steps(COUNTS)


class Sources(unittest.TestCase):
    def test_what_the_model_copies_is_in_the_sources(self):
        for path, pattern in sources.HELD:
            with self.subTest(path=path, pattern=pattern):
                sources.hold(path, pattern)

    def test_flash_tiles_are_those_of_the_sources(self):
        for name, numbers in attention.FLASH_HELD:
            sources.hold("src/ops/cuda/flashinfer/flashinfer_kernels.h", name + r" = \{" + numbers + r"\};")

    def test_a_source_that_has_changed_is_named(self):
        with self.assertRaisesRegex(sources.Changed, "gemm_tiles.h has no .*kNoSuch"):
            sources.constant("kNoSuch", "src/ops/cuda/products/gemm_tiles.h")
        with mock.patch.object(sources, "text", lambda path: "constexpr int kSliceUnit = of(7);"):
            with self.assertRaisesRegex(sources.Changed, r"kSliceUnit = of\(7\)"):
                sources.constant.__wrapped__("kSliceUnit", "gemm_tiles.h")

    def test_a_tile_that_has_changed_has_no_counts(self):
        # As if FewTile's stages were 64 deep: neither the kernel's name nor its loop fits.
        with mock.patch.object(products, "tile", lambda name, path, zeros=False: (16, 32, 16, 16, 64, 6)):
            with self.assertRaisesRegex(sources.Changed, "sass_counts.json has no gemm_kernel"):
                products.own(COUNTS, "", Shape(1, 3584, 3584))
        with self.assertRaisesRegex(sources.Changed, "8 HMMA a turn where its tile has 16"):
            products.check_loop("a kernel", {"HMMA": 8}, 16)

    def test_every_launch_is_in_the_model_or_left_out_for_a_reason(self):
        left_out = [name for names in launches.LEFT_OUT.values() for name in names]
        named = sorted([*launches.MODELLED, *left_out])
        self.assertEqual(named, sorted(set(named)))
        declared = sources.kernels_of_header()
        self.assertEqual(sorted(declared - set(named)), [], "launches that tools/gpu_cost/launches.py does not name")
        self.assertEqual(sorted(name for name in set(named) - declared if name != "launch_finish_product"), [])
        used = {kernel.source for step in steps_of_all() for _, kernel in step.kernels}
        for name in measured.read("h200-kernels.jsonl"):
            used |= {kernel.source for kernel in measured.kernels_of(COUNTS, name) or []}
        used |= {rows.sample(COUNTS, "", 1, 152064, "T 1").source, rows.finish(COUNTS, "", 1, 64).source}
        self.assertEqual({sources.CUDA + source for source in launches.MODELLED.values()} - used, set())


class Costs(unittest.TestCase):
    def assert_rises(self, of, counts_of, what):
        before = None
        for count in counts_of:
            seconds = [of(count).seconds(gpu) for gpu in GPUS]
            if before is not None:
                for now, then in zip(seconds, before):
                    self.assertGreaterEqual(now, then * 0.999, f"{what}, {count}")
            before = seconds

    def test_one_tiles_cost_rises_with_rows(self):
        for inputs, out in SHAPES:
            for least, most in ((1, 16), (17, 64), (65, 8192)):
                mine = [count for count in ROWS if least <= count <= most]
                self.assert_rises(lambda count: products.own(COUNTS, "", Shape(count, inputs, out)), mine, f"own {inputs} x {out}")
            self.assert_rises(lambda count: products.library("", Shape(count, inputs, out)), ROWS, f"library {inputs} x {out}")
        for form in ("NibbleForm", "E4m3Form"):
            self.assert_rises(lambda count: products.codes(COUNTS, "", Shape(count, 3584, 37888), form), [1, 16], form)
        self.assert_rises(lambda count: rows.norm(COUNTS, "", count, 3584), ROWS, "norm")
        self.assert_rises(lambda count: rows.qkv(COUNTS, "", count, 36, 128), ROWS, "rope")

    def test_steps_rise_with_what_they_do(self):
        for which in ("2B", "7B"):
            self.assert_rises(lambda count: steps.decode(COUNTS, which, count), [1, 8, 16], which)
            self.assert_rises(lambda context: steps.decode(COUNTS, which, 8, context), [255, 256, 1024, 8192, 32768], which)
            self.assert_rises(lambda length: steps.prefill(COUNTS, which, length), [512, 1024, 2048, 8192], which)
        self.assert_rises(lambda patches: steps.tower(COUNTS, patches), steps.TOWERS, "tower")

    def test_nothing_is_faster_than_its_roof(self):
        for step in steps_of_all():
            for gpu in GPUS:
                self.assertGreater(step.seconds(gpu), step.roof(gpu), step.name)
                for _, kernel in step.kernels:
                    self.assertGreater(kernel.seconds(gpu), kernel.roof(gpu), f"{step.name}: {kernel.name}")
                    self.assertGreater(kernel.blocks, 0, kernel.name)

    def test_an_h200_is_not_slower(self):
        for step in steps_of_all():
            self.assertLessEqual(step.seconds(H200), step.seconds(H100), step.name)

    # What was measured is of these kernels, or of slower ones: the model would be no bound if it said more.
    def test_measured_is_not_far_below_the_expected(self):
        for name, took in measured.read("h200-kernels.jsonl").items():
            kernels = measured.kernels_of(COUNTS, name)
            if kernels is not None:
                self.assertGreater(took, 0.8 * sum(kernel.seconds(H200) for kernel in kernels), name)

    def test_tiles_as_their_comments_say(self):
        # gemm_tiles.h: 32 KB and more of the weight under way to each; 17,920 outputs are one wave of three blocks each.
        for inputs, out in SHAPES:
            kernel = products.own(COUNTS, "", Shape(1, inputs, out))
            self.assertGreaterEqual(kernel.in_flight(), 32 * 1024)
        wide = products.own(COUNTS, "", Shape(1, 1536, 17920))
        self.assertEqual((wide.residents(), wide.blocks), (3, 280))
        # attention_few.h: up to 90 KB a block.
        self.assertEqual(attention.few_shared(128), 89856)

    def test_products_of_few_rows_take_along_what_fits(self):
        # docs/cuda-kernels.md, of few_gemm.cu: beside gate and up 15 rows of 2B's columns and 6 of 7B's; norms of 10 and 4, of 7B's qkv 2.
        def most(inputs, out, **kinds):
            return max(count for count in range(1, 33) if products.few(COUNTS, "", Shape(count, inputs, out), **kinds))

        self.assertEqual([most(1536, 17920, gated=True), most(3584, 37888, gated=True)], [15, 6])
        self.assertEqual([most(1536, 17920, gated=True, normed=True), most(3584, 37888, gated=True, normed=True)], [10, 4])
        self.assertEqual(most(3584, 4608, normed=True), 2)

    def test_splits_as_they_are_planned(self):
        heads = attention.Heads(28, 4, 128)
        blocks = lambda contexts: [kernel.blocks for kernel in attention.decode(COUNTS, "", contexts, heads)]  # noqa: E731
        # attention_parts.h: seven rows a tile are joined by the last block up to 16 splits.
        self.assertEqual(blocks([1023]), [4 * 4])
        self.assertEqual(blocks([4095]), [16 * 4])
        self.assertEqual(blocks([4096]), [17 * 4, 28])
        self.assertEqual(blocks([255]), [4])
        self.assertEqual(blocks([1024] * 64), [64 * 4])


class Loops(unittest.TestCase):
    def instruction(self, address, text):
        return counts.sass().Instruction(address, text)

    def test_the_way_through_a_loop(self):
        body = [self.instruction(0x00, "LDG.E R1, [R2]"), self.instruction(0x10, "@P0 BRA 0x50"), self.instruction(0x20, "MUFU.EX2 R1, R1"),
                self.instruction(0x30, "HMMA.16816.F32.BF16 R4, R4, R8, R4"), self.instruction(0x40, "NOP"),
                self.instruction(0x50, "FADD R1, R1, R2"), self.instruction(0x60, "@P1 BRA 0x0")]
        is_hmma = lambda each: each.opcode.startswith("HMMA")  # noqa: E731
        self.assertEqual(len(counts.way_through(body, is_hmma, False)), 4)  # over what the branch leaves out
        self.assertEqual(len(counts.way_through(body, is_hmma, True)), 7)  # with all products

    def test_behind_a_jump_is_no_way_on(self):
        body = [self.instruction(0x00, "LDG.E R1, [R2]"), self.instruction(0x10, "BRA 0x30"),
                self.instruction(0x20, "HMMA.16816.F32.BF16 R4, R4, R8, R4"), self.instruction(0x30, "@P1 BRA 0x0")]
        way = counts.way_through(body, lambda each: each.opcode.startswith("HMMA"), True)
        self.assertEqual([each.address for each in way], [0, 0x10, 0x30])


class Page(unittest.TestCase):
    def test_the_page_is_what_the_model_says(self):
        with open(f"{ROOT}/benchmarks/results/gpu/cost.md", encoding="utf-8") as file:
            committed = file.read()
        self.assertEqual(page.page(COUNTS, counts.before()), committed, "scripts/gpu-cost --page > benchmarks/results/gpu/cost.md")

    def test_without_a_count_the_script_says_so(self):
        said = subprocess.run([f"{ROOT}/scripts/gpu-cost", "--before", "/no/such/folder"], capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, 2)
        self.assertRegex(said.stderr, "gpu-cost: no (object /no/such/folder|cuobjdump)")


if __name__ == "__main__":
    unittest.main()
