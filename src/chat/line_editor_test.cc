#include "chat/line_editor.h"

#include <gtest/gtest.h>

#include <clocale>

namespace saccade::chat {
namespace {

using Outcome = LineEditor::Outcome;

Outcome type(LineEditor& editor, std::string_view keys) {
  Outcome last = Outcome::kMore;
  for (const char byte : keys) last = editor.feed(byte);
  return last;
}

std::string typed(std::string_view keys) {
  LineEditor editor;
  type(editor, keys);
  return editor.text();
}

TEST(LineEditor, Keys) {
  EXPECT_EQ(typed("abc\x7f"), "ab");
  EXPECT_EQ(typed("grün\x7f\x7f"), "gr");  // characters, not bytes
  EXPECT_EQ(typed("bc\x1b[D\x1b[D"
                  "a"),
            "abc");  // left
  EXPECT_EQ(typed("ac\x1b[D"
                  "b\x1b[C"
                  "d"),
            "abcd");  // right
  EXPECT_EQ(typed("bc\x01"
                  "a\x05"
                  "d"),
            "abcd");  // home, end
  EXPECT_EQ(typed("bc\x1b[H"
                  "a\x1bOF"
                  "d"),
            "abcd");  // as keys
  EXPECT_EQ(typed("bc\x1b[1~"
                  "a\x1b[4~"
                  "d"),
            "abcd");                                    // as older ones
  EXPECT_EQ(typed("abc\x01\x1b[3~"), "bc");             // delete
  EXPECT_EQ(typed("one two \x17"), "one ");             // word
  EXPECT_EQ(typed("abc\x1b[D\x15"), "c");               // to the beginning
  EXPECT_EQ(typed("abc\x1b[D\x0b"), "ab");              // to the end
  EXPECT_EQ(typed("a\x1b[5~\x1b[1;5Cb\x1bxc"), "abc");  // keys that mean nothing here
}

TEST(LineEditor, EndsOfLines) {
  LineEditor editor;
  EXPECT_EQ(type(editor, "one\r"), Outcome::kEntered);
  EXPECT_EQ(editor.take(), "one");
  EXPECT_EQ(type(editor, "x\x03"), Outcome::kDiscarded);
  EXPECT_EQ(editor.text(), "");
  EXPECT_EQ(type(editor, "x\x04"), Outcome::kMore);
  EXPECT_EQ(type(editor, "\x15\x04"), Outcome::kEnded);
  EXPECT_EQ(type(editor, "two\\\rlines\r"), Outcome::kEntered);
  EXPECT_EQ(editor.take(), "two\nlines");
  EXPECT_EQ(type(editor, "\x1b[200~a\r\nb\x1b[201~"), Outcome::kMore);  // pasted
  EXPECT_EQ(editor.text(), "a\n\nb");
}

TEST(LineEditor, WhatWasTypedBefore) {
  LineEditor editor;
  for (const char* line : {"one\r", "two\r", "two\r"}) {
    type(editor, line);
    editor.take();
  }
  type(editor, "thr\x1b[A");
  EXPECT_EQ(editor.text(), "two");
  type(editor, "\x1b[A");
  EXPECT_EQ(editor.text(), "one");
  type(editor, "\x1b[A\x1b[B\x1b[B");
  EXPECT_EQ(editor.text(), "thr");
  type(editor, "\x1b[B");
  EXPECT_EQ(editor.text(), "thr");
}

TEST(LineEditor, ALongLineMovesSideways) {
  const LineView all = view_of("abc", 1, 10);
  EXPECT_EQ(all.text, "abc");
  EXPECT_EQ(all.cursor, 1);
  const LineView moved = view_of("abcdefghij", 10, 5);
  EXPECT_EQ(moved.text, "ghij");
  EXPECT_EQ(moved.cursor, 4);
  EXPECT_EQ(view_of("abcdefghij", 0, 5).text, "abcd");
  EXPECT_EQ(view_of("a\nb", 3, 9).text, "a⏎b");
}

TEST(LineEditor, WideCharactersTakeTwoColumns) {
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) GTEST_SKIP() << "no C.UTF-8";
  EXPECT_EQ(view_of("日本", 6, 9).cursor, 4);
  EXPECT_EQ(view_of("日本", 6, 4).text, "本");
}

}  // namespace
}  // namespace saccade::chat
