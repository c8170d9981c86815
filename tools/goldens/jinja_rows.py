"""The templates of tools/goldens/jinja.py, by file: (variables, rows); a row is a template, or one with variables."""

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hi \n"},
    {"role": "assistant", "content": "Hello!", "tool_calls": [
        {"id": "call_1", "type": "function",
         "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2, "exact": True, "min": 2.0}}}]},
    {"role": "tool", "name": "weather", "content": "{\"t\": 3.5}"},
    {"role": "user", "content": "Why?"},
]
PARTS = [
    {"role": "user", "content": [
        {"type": "text", "text": "Compare "},
        {"type": "image"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": " please."},
        {"type": "video", "video": "y"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Same."}]},
    {"role": "user", "content": "Sure?"},
]
TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "It's \"the\" weather <now> & then",
        "parameters": {"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Stadt – 市"},
            "days": {"type": "integer", "default": 1, "enum": [1, 2, 7]},
            "exact": {"type": ["boolean", "null"]}}}}},
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]

WHITESPACE = [
    "", "\n", "\n\n", "a\n", "a\n\n", "  a  ", "\r\n a\r b\r\n",
    "{% if true %}\nA\n{% endif %}\nB\n",
    "  {% if true %}\n  A\n  {% endif %}\n  B",
    "x {% if true %} y {% endif %} z",
    "x\n   {%- if true -%}   \n y \n {%- endif -%}  \n z",
    "x\n   {%+ if true %}\n y \n {%+ endif +%}\n z",
    "x\n   {{ 1 }}\n   {{- 2 -}}   \n   {{ 3 }}\n",
    "a {{- 1 }} b {{ 2 -}} c",
    "a\n\n\n{{- 1 -}}\n\n\nb",
    "{# c #}\nA\n  {# c #}\n  B {# c #} C",
    "A\n  {#- c -#}\n  B", "A\n  {#+ c +#}\n  B", "{#-#}x", "{##}x", "{# {{ no }} {% no %} #}x",
    "{# multi\nline #}\n\nx",
    "{% raw %}{{ x }} {% if %} {# c #}{% endraw %}",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\n  b",
    "a \n {%- raw -%} \n {{ x }} \n {%- endraw -%} \n b",
    "{%+ raw %} x {% endraw +%}\ny", "{%raw%}x{%endraw%}", "{% raw %}{% endra %}{% endraw %}",
    "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}\n",
    "{%- for i in [1, 2] -%}\n  {{ i }}\n{%- endfor -%}\n",
    "{% for i in [1, 2] %}\n  {{ i }}\n{% endfor %}\nend",
    "{% for i in [1, 2] %}  \n  {{ i }}  \n{% endfor %}  \nend",
    "\t{% if true %}\t\n\tx\n\t{% endif %}\t",
    "a{% if true %}\n\n\nb{% endif %}\n\n\nc", "{{ 'a\nb' }}\n{{ \"c\\\n d\" }}",
    "\u00a0{% if true %}\u2003x\u2028{% endif %}", "x\u2003{%- if true -%}\u3000y{% endif %}",
    "{{ 1 }}\n", "{{ 1 }}\n\n", "{% if true %}x{% endif %}\n\n", " {%- set x = 1 %} x ",
    "{{1}}{{2}}", "{{-1}}", "{{+1}}", "{{ -1 }}", "{{- -1 }}", "{ { } } {% raw %}{%{% endraw %} #} %} }}", "{ {{ '{' }} }",
    "a{%if true%}b{%else%}c{%endif%}d", "{%\nif\ntrue\n%}x{%\nendif\n%}",
]

STATEMENTS = [
    "{% if 0 %}a{% elif '' %}b{% elif [] %}c{% elif {} %}d{% else %}e{% endif %}",
    "{% if messages %}y{% endif %}{% if none %}n{% endif %}{% if missing %}m{% endif %}{% if not missing %}k{% endif %}",
    "{% if 1, 2 %}tuple{% endif %}", "{% if true: %}colon{% endif %}",
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }} {{ m.role }}\n{% endfor %}",
    "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}<{{ m.role }}>"
    "{{ loop.nextitem.role if loop.nextitem is defined else '-' }} {% endfor %}",
    "{% for m in messages %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x, 'k') }}{{ loop.changed() }} {% endfor %}",
    "{% for x in [] %}a{% else %}empty{% endfor %}", "{% for x in missing %}a{% else %}empty{% endfor %}",
    "{% for x in [1] %}{% break %}{% else %}else{% endfor %}", "{% for x in [1] %}{% continue %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}else{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3), ('xy', 'z')] %}{{ a }}{{ b }}{{ c }}|{% endfor %}",
    "{% for a, b in [[1]] %}{{ a }}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}", "{% for a, in [[1]] %}{{ a }}{% endfor %}",
    "{% for x in messages if x.role == 'user' %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {{ x.content }}{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] if b > 2 %}{{ a }}{{ b }}{{ loop.previtem is defined }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] if b %}{{ loop.nextitem }}{% endfor %}",
    "{% set ns = namespace(found=false) %}{% for x in [1, 2, 3] if not ns.found %}{{ x }}{% set ns.found = x == 2 %}{% endfor %}",
    "{% set ns = namespace(found=false) %}{% for x in [1, 2, 3] if not ns.found %}{{ x }}{{ loop.last }}{% set ns.found = x == 2 %}{% endfor %}",
    "{% for x in 'añ😀b' %}[{{ x }}]{% endfor %}", "{% for k in {'x': 1, 'y': 2} %}{{ k }}{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in namespace() %}{% endfor %}",
    "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for n in [1, 2] %}{% for m in 'ab' %}{{ loop.index }}{{ n }}{{ m }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for n in tree recursive %}{{ n.v }}{{ loop.depth }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}",
    "{% for n in tree recursive %}{{ loop.index }}{{ n.v }}{{ loop(n.c or []) }}{% else %}.{% endfor %}",
    "{% for n in tree if n.v != 'b' recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{% endfor %}",
    "{% for n in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for x in [1] %}{% break %}", "{% break %}", "{% continue %}", "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set (x, y) = 'ab' %}{{ x }}{{ y }}",
    "{% set x = 1, %}{{ x }}", "{% set x, y = [1] %}", "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]",
    "{% set x | upper | replace('A', 'b') %}aA{% endset %}{{ x }}", "{% set x | indent(2) %}\na\nb\n{% endset %}{{ x }}",
    "{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{% set ns.c = [ns.a] %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns }}", "{% set ns = namespace([('k', 'v')]) %}{{ ns.k }}{{ ns['k'] }}{{ ns.q is defined }}",
    "{% set ns = namespace() %}{% set ns.x %}cap{{ 1 }}{% endset %}{{ ns.x }}", "{% set d = {} %}{% set d.x = 1 %}", "{% set q.x = 1 %}",
    "{% set ns = namespace(a=0, b=0) %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(items=[1]) %}{% for x in [1, 2] %}{% set ns.items = ns.items + [x] %}{% endfor %}{{ ns.items }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='y') }} {{ m(b=1, a=2) }} {{ m() }}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a + 1 }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", "{% macro m(a, b=c, c=3) %}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 'a', x=2) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}",
    "{% macro m(a) %}{{ a }}{{ varargs | length }}{% endmacro %}{{ m(*[1, 2, 3]) }}{{ m(**{'a': 4}) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, *[2]) }}{{ m(*[1], b=2) }}", "{{ range(*[1, 4]) | list }}",
    "{% macro wrap() %}<{{ caller() }}>{% endmacro %}{% call wrap() %}in{{ 1 }}{% endcall %}",
    "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(v, i) each('ab') %}{{ i }}{{ v }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m(caller=none) %}{{ caller() if caller else 'none' }}{% endmacro %}{{ m() }}{% call m() %}c{% endcall %}",
    "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% call(x) range(2) %}{% endcall %}", "{% call 5 %}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ a() }}{% macro a() %}{% endmacro %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{{ m }}",
    "{% macro m() %}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x is defined }}", "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %} x {% endmacro %}[{{ m() | trim }}][{{ m() ~ m() }}][{{ m() | length }}]",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}a{% endfilter %}", "{% filter indent(width=1) %}a\nb{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with (a, b) = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% generation %}x{{ 1 }}{% endgeneration %}y", "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "{%- generation -%} a {%- endgeneration -%} b", "{% print 1, 'a' %}", "{% for i in [1] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% block b %}{% endblock %}{% extends 'x' %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% do x %}", "{% nosuch %}", "{% endif %}", "{% if %}", "{% if 1 %}",
    "{% for %}", "{% for x %}", "{% for x in %}{% endfor %}", "{% for 1 in [] %}{% endfor %}", "{% for x in [1] %}{% endif %}", "{% set %}", "{% set 1 = 2 %}",
    "{% set x = %}", "{% set true = 1 %}", "{% set x.y.z = 1 %}", "{% macro %}{% endmacro %}", "{% else %}", "{%", "{{", "{#", "{{ 1", "{% raw %}", "{{ }}", "{% %}",
    "{{ 1 }", "{{ 'a }}", "{{ (1 }}", "{{ 1) }}", "{{ [1) }}", "{{ a b }}", "{{ 1 2 }}", "{{ a. }}", "{{ a.'x' }}", "{{ a | }}", "{{ a is }}", "{{ ! }}", "{{ a & b }}",
    "{{ raise_exception('Stop: ' ~ 1) }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ strftime_now('%d %b %Y %H:%M:%S %A %j') }}",
    "{{ strftime_now('%Y-%m-%d%%') }}|{{ strftime_now('') }}|{{ strftime_now('%Z%z') }}|{{ strftime_now('%-d/%-m %B %p %I %y') }}",
]

SCOPES = [
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i * 10 %}{{ x }} {% endfor %}{{ x }}",
    "{% for i in [1] %}{% set y = i %}{% endfor %}{{ y is defined }}", "{% if true %}{% set z = 1 %}{% endif %}{{ z }}",
    "{% if false %}{% set z = 1 %}{% endif %}{{ z is defined }}", "{% set z = 0 %}{% if true %}{% set z = 1 %}{% else %}{% set z = 2 %}{% endif %}{{ z }}",
    "{% set role = role or 'none' %}{{ role }}", "{{ bos }}{% set bos = 'x' %}{{ bos }}", "{% set bos = bos ~ '!' %}{{ bos }}",
    "{% for bos in [1, 2] %}{{ bos }}{% endfor %}{{ bos }}", "{% for i in [1, 2] %}{% if i == 2 %}{{ bos }}{% endif %}{% set bos = i %}{{ bos }}{% endfor %}{{ bos }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% set x = 2 %}{{ m() }}", "{% macro m() %}{{ bos }}{% endmacro %}{{ m() }}{% set bos = 2 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 5 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}", "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ y }}{{ x }}", "{% set x = 1 %}{% filter upper %}{% set x = 'a' %}{{ x }}{% endfilter %}{{ x }}",
    "{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(1) }}", "{% for loop in [1] %}{% endfor %}", "{% for i in [1] %}{% set loop = 1 %}{% endfor %}", "{% set loop = 1 %}{{ loop }}",
    "{% for i in [1] %}{% for j in [2] if loop.index == 1 %}{{ j }}{% endfor %}{% endfor %}", "{% for i in [1] if loop.index %}{{ i }}{% endfor %}",
    "{% for i in [1, 2] %}{% for j in [] %}{% else %}{{ loop.index }}{% endfor %}{% endfor %}", "{% for i in [1] %}{% else %}{% endfor %}{{ loop is defined }}{{ i is defined }}",
    "{% set ns = namespace() %}{% for i in 'ab' %}{% set ns.loop = loop %}{% endfor %}{{ ns.loop.index }}{{ ns.loop.last }}",
    "{% set x = 'o' %}{% macro wrap() %}{% set x = 'w' %}{{ caller() }}{% endmacro %}{% call wrap() %}{{ x }}{% set x = 'c' %}{{ x }}{% endcall %}{{ x }}",
    "{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}", "{% set messages = messages[1:] %}{% for m in messages %}{{ m.role }} {% endfor %}",
    "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}"
    "{{ sys }}{{ loop_messages | length }}", "{% for m in messages %}{% if loop.first %}{% set first = m.role %}{% endif %}{{ first }},{% endfor %}",
    "{% macro outer() %}{% macro inner() %}{{ v }}{% endmacro %}{% set v = 1 %}{{ inner() }}{% endmacro %}{{ outer() }}",
    "{% if true %}{% if true %}{% set deep = 1 %}{% endif %}{% endif %}{{ deep }}", "{% for i in [1] %}{% if true %}{% set deep = 1 %}{% endif %}{{ deep }}{% endfor %}{{ deep is defined }}",
    "{% set range = 5 %}{{ range }}", "{{ range is callable }}{{ namespace is defined }}{{ loop is defined }}",
    "{% set x | default(bos) %}{% endset %}[{{ x }}]{{ bos }}", "{% if x is not defined %}{% set x = false %}{% endif %}{{ x }}", "{% set x = x if x is defined else 3 %}{{ x }}",
]

EXPRESSIONS = [
    "{{ %s }}" % e for e in [
        "1 + 2 * 3 - 4", "7 / 2", "6 / 2", "7 // 2", "-7 // 2", "7 // -2", "7 % 3", "-7 % 3", "7 % -3", "2 ** 10", "2 ** -1", "2 ** 3 ** 2", "-2 ** 2", "(-2) ** 2",
        "7.5 // 2", "-7.5 // 2", "7.5 % 2", "-7.5 % 2", "7.5 % -2", "0.0 * -1", "1e3", "1.5e-7", "1_000", "0x1F", "0b101", "0o17", "1.0", "100000000000000000000.0", "1e16", "1e15", "0.1 + 0.2",
        "1 / 3", "10 ** 20", "2 ** 100", "2 ** 0.5", "true + true", "true * 3", "- true", "+ true", "not 1", "not not ''", "1 if true", "1 if false", "(1 if false) is defined",
        "1 if false else 2", "1 if true else 2 if true else 3", "1 if false else 2 if false else 3", "1 and 2", "0 and 2", "1 or 2", "'' or 'x'", "'' or [] or 0", "none or missing or 'z'",
        "1 == 1.0", "1 == true", "'1' == 1", "[1, 2] == [1, 2]", "(1, 2) == [1, 2]", "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "none == missing", "missing == missing2", "missing != none",
        "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2 != 1", "'a' < 'b'", "'a' < 'B'", "'é' > 'z'", "[1, 2] < [1, 3]", "[1] < [1, 0]", "(1, 'a') < (1, 'b')", "1 < 1.5", "true < 2",
        "'a' < 1", "none < 1", "{} < {}", "missing < 1", "[1] < (1,)", "1 in [1, 2]", "3 not in [1, 2]", "'b' in 'abc'", "'' in ''", "'x' not in 'abc'", "1 in 'a'", "'k' in {'k': 1}", "1 in 5",
        "'role' in messages[0]", "'x' in missing", "2 in range(3)", "2.0 in range(3)", "'a' in ('a',)", "none in [none]", "1 in none", "not 1 in [1]", "'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ missing",
        "'a' + 'b'", "'a' + 1", "1 + 'a'", "'a' + none", "'a' + missing", "missing + 'a'", "[1] + [2]", "[1] + (2,)", "(1,) + (2,)", "{} + {}", "'ab' * 3", "3 * 'ab'", "'ab' * -1", "[0] * 3", "2 * (1,)", "'a' * 1.5", "'a' - 'b'",
        "1 / 0", "1 // 0", "1 % 0", "1.0 / 0", "0 ** -1", "1 + none", "none + 1", "- 'a'", "+ 'a'", "- missing", "10.0 ** 400", "1e308 * 10", "-1e308 * 10",
        "'abc'[0]", "'abc'[-1]", "'abc'[5]", "'abc'[5] is defined", "'aéb'[1]", "[1, 2, 3][-1]", "[1][3]", "[1]['x']", "[1][1.0]", "[1, 2][true]", "(1, 2)[0]", "{'a': 1}['a']", "{'a': 1}['b']", "{'a': 1}.a", "{'a': 1}.b",
        "{'a': {'b': [10, 20]}}.a.b[1]", "{'a': {'b': [10, 20]}}.a.b.1", "{1: 'x'}[1]", "{1: 'x'}[1.0]", "{1: 'x'}[true]", "{(1, 2): 'x'}[1, 2]", "{[1]: 2}", "{'items': 1}.items", "{'items': 1}['items']", "{'get': 5}['get']", "{'a': 1}['get']('a')",
        "missing", "missing.x", "missing['x']", "missing[0]", "none.x", "none.x.y", "none['x']", "5 .x", "messages[0].nothing", "messages[0].nothing.more", "messages[99]", "messages[99].role", "messages.role", "missing()", "missing.x is defined", "messages[0].x is defined",
        "'abcdef'[1:3]", "'abcdef'[:2]", "'abcdef'[-2:]", "'abcdef'[::2]", "'abcdef'[::-1]", "'abcdef'[4:1:-1]", "'abcdef'[10:]", "'abcdef'[:-10]", "'aéîøü'[1:4]", "'aéîøü'[::-1]", "'😀é'[0:1]", "'abc'[1:1]", "'abc'[2:0]", "'abc'[none:none]", "'abc'[:missing]", "messages[0].content['a':]", "'abc'[::0]",
        "[1, 2, 3, 4][1:]", "[1, 2, 3, 4][::-1]", "[1, 2, 3, 4][-3:-1]", "(1, 2, 3)[1:]", "range(10)[2:5]", "range(10)[::-3] | list", "range(5)[1]", "range(5)[9]", "messages[0][1:2]", "messages[0].nothing[1:]", "missing[1:]", "(messages | length)[1:]", "messages[1:][0].role", "messages[::-1][0].content", "messages[-1]['content'][:2]",
        "[1, 2,]", "[]", "()", "(1,)", "(1, 2)", "{'a': 1,}", "{}", "{'a': 1, 'a': 2}", "[[], [()], {}]", "1, 2", "('a' 'b')", "'a' 'b' \"c\"",
        "'\\n\\t\\\\\\'\\\"'", "'\\x41\\u00e9\\U0001F600\\101'", "'\\q\\8'", "'\\é'", "'\\x4'", "'\\u12'", "'\\ud800'", "\"a'b\"", "'a\"b'", "'\\a\\b\\f\\v\\r\\0x'", "['\\x00\\x7f\\x85\\u200b\\xa0\\U000e0001']",
        "1 is odd", "true and not false", "not true or true", "1 if 1 < 2 and 2 < 3 else 0", "(1 + 2) * 3", "-1 | abs", "-(1 | abs)", "2 * 3 | string + '!'", "'a' | upper ~ 'b'", "1 + 1 | string", "[1, 2] | length + 1", "not [] | length", "1 is defined and 2", "x is defined or 5",
        "12345678901234567890", "12345678901234567890 + 1", "9223372036854775807 + 1", "-9223372036854775808 - 1", "007", "00", "1.", ".5", "1e", "1__0", "0x", "foo.0bar", "a.1.2 is defined", "[[5, 6]].0.1", "True", "False", "None", "TRUE",
        "dict(a=1, b=2)", "dict([('a', 1)], b=2)", "dict({'a': 1})", "dict([1])", "range(3)", "range(3) | list", "range(1, 4) | list", "range(5, 0, -2) | list", "range(0)", "range(1, 10, 3)", "range('a')", "range(1, 2, 0)", "range(1.5)", "range(100001) | length", "range(100000) | length",
        "range(3) == range(0, 3)", "range(0) == range(2, 1)", "joiner()()", "cycler(1, 2).next()", "cycler()", "cycler('a').current", "range", "namespace(a=1)", "namespace(a=1).a", "namespace(a=1)['a']", "namespace(1)", "messages[0].items() | list", "messages[0].keys() | list",
        "messages[0].values() | list", "{'a': 1}.items()", "{'a': 1}.keys()", "{'a': 1}.values()", "{'b': 1, 'a': 2}.keys() | sort", "'a' in {'a': 1}.keys()", "1 in {'a': 1}.values()", "('a', 1) in {'a': 1}.items()", "{'a': 1}.items()[0]", "{}.items() | length", "{}.get('x')", "{}.get('x', 5)", "{'x': none}.get('x', 5)", "{}.get()", "{'a': 1}.get('a', default=2)", "{}.get([])",
        "[1, 2, 1].count(1)", "[1, 2].index(2)", "[1].index(5)", "(1, 2).index(2)", "[1].append(2)", "[1].append", "[1].append is defined", "[1].pop()", "{'a': 1}.pop('a')", "{}.update({'a': 1})", "{}.setdefault('a', 1)", "[2, 1].sort()", "[1].copy()", "{'a': 1}.copy()", "[1].nothing()", "''.__class__", "''.__class__ is defined", "''.__class__.x", "[].__len__()", "{}._x is defined",
        "1 is 1", "5 | nofilter", "5 is notest", "5 | nofilter if false else 1", "(5 | nofilter) if true else 1", "1 if 5 is notest else 2",
        "{'a': 1} | tojson ~ 'x'", "messages | length", "[1, 2, 3] | last - 1", "(messages | first).role", "messages[0]['role'] == 'system' and messages | length > 2", "1 if messages else 2", "[missing]", "{'a': missing}", "[none, true, 1.0, 'a\\'b', \"a\\\"b\", 'a\\'\\\"b']", "[1.5e300, 1e-10, 1e22, 123456789.123]", "(missing,)",
    ]
]

_TEXT = [
    "'  a b '.strip()", "'xxaxx'.strip('x')", "'xyaxy'.strip('yx')", "' a '.lstrip() + '|'", "' a '.rstrip() + '|'", "'abc'.lstrip('ab')", "'abc'.rstrip('bc')", "'\\u2003a\\u3000'.strip()", "'a'.strip(none)", "'a'.strip(5)", "'a'.strip('a', 'b')",
    "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "' a  b '.split()", "' a  b c '.split(none, 1)", "'a b c'.split(maxsplit=1)", "'a b'.split(sep=' ')", "'abc'.split('')", "''.split(',')", "''.split()", "'a--b--c'.rsplit('--', 1)", "' a b c '.rsplit(none, 1)", "'a b c'.rsplit()", "'a,b'.split(',')[-1]", "'x</think>y</think>z'.split('</think>')[-1].lstrip('\\n')", "'aaa'.split('aa')", "'aaa'.rsplit('aa')",
    "'a\\nb\\r\\nc\\rd'.splitlines()", "'a\\nb\\n'.splitlines(true)", "'a\\x0bb\\x0cc\\x1cd\\u2028e\\x85f'.splitlines()", "''.splitlines()", "'abc'.startswith('ab')", "'abc'.startswith(('x', 'a'))", "'abc'.startswith('b', 1)", "'abc'.startswith('')", "'abc'.startswith('', 5)", "'abc'.startswith(['a'])", "'abc'.startswith(1)", "'abc'.endswith('bc')", "'abc'.endswith(('x', 'c'))", "'abc'.endswith('b', 0, 2)", "'abc'.endswith(none)",
    "'aBc dEf'.upper()", "'ABC'.lower()", "'hello wORLD it\\'s'.title()", "'hELLO'.capitalize()", "'aB'.swapcase()", "'ß'.upper()", "'ﬁx'.title()", "'ΑΣ ΣΑ Σ'.lower()", "'İ'.lower()", "'straße'.casefold()", "'éÀ'.upper() ~ 'éÀ'.lower()", "'ǆ'.title()", "'123abc'.title()", "'ŉ'.capitalize()",
    "'abcabc'.replace('b', 'X')", "'abcabc'.replace('b', 'X', 1)", "'abc'.replace('', '-')", "'abc'.replace('', '-', 2)", "''.replace('', 'x')", "'abc'.replace('z', 'y')", "'abc'.replace('b')", "'abc'.replace('b', 1)", "'aaa'.replace('aa', 'b')", "'é'.replace('', '-')",
    "'abcb'.find('b')", "'abcb'.rfind('b')", "'abc'.find('z')", "'abcb'.find('b', 2)", "'éab'.find('a')", "'abc'.index('c')", "'abc'.index('z')", "'abcb'.count('b')", "'aaa'.count('aa')", "'abc'.count('')", "'abc'.find('')", "'abc'.find('', 3)", "'abc'.find('', 4)", "'abc'.rfind('')", "'abcabc'.rindex('a')", "'abcabc'.count('a', 1)", "'abcabc'.find('a', -2)", "'éabé'.rfind('é')",
    "', '.join(['a', 'b'])", "'-'.join('abc')", "'-'.join([1])", "','.join([])", "''.join(('a',))", "','.join({'a': 1, 'b': 2})", "','.join(missing)", "','.join(none)",
    "'a'.isdigit()", "'12'.isdigit()", "'²'.isdigit()", "'²'.isdecimal()", "'½'.isnumeric()", "''.isdigit()", "'abc'.isalpha()", "'ab1'.isalnum()", "' '.isspace()", "'Abc Def'.istitle()", "'ABC'.isupper()", "'abc1'.islower()", "'1'.islower()", "'a_1'.isidentifier()", "'1a'.isidentifier()", "'a\\n'.isprintable()", "'é'.isascii()", "''.isascii()", "'ǅ'.isupper()", "'数据'.isalpha()",
    "'a'.center(5, '*')", "'ab'.center(5)", "'abc'.center(6, '-')", "'a'.ljust(3, '.')", "'a'.rjust(3)", "'42'.zfill(5)", "'-42'.zfill(5)", "'a'.ljust(3, 'xy')", "'a\\tb'.expandtabs(4)", "'ab\\tc\\n\\td'.expandtabs()", "'a-b-c'.partition('-')", "'a-b-c'.rpartition('-')", "'abc'.partition('x')", "'abc'.rpartition('x')", "'abc'.partition('')", "'prefix_x'.removeprefix('prefix_')", "'x.txt'.removesuffix('.txt')", "'abc'.nothing()",
    "'{} {}'.format(1, 'a')", "'{0}{1}{0}'.format('a', 'b')", "'{x} {y!r}'.format(x=1, y='q')", "'{:>5}|{:<5}|{:^5}|'.format(1, 'a', 'b')", "'{:05d} {:+d} {:x} {:X} {:#x} {:b} {:o} {:c}'.format(42, 42, 255, 255, 255, 5, 8, 65)", "'{:.2f} {:e} {:g} {:.3} {:%} {:.1%}'.format(3.14159, 1234.5, 0.00001, 2.0, 0.5, 0.256)", "'{:,} {:_} {:,.2f}'.format(1234567, 1234567, 1234567.891)", "'{:*^9}'.format('mid')", "'{{}} {}'.format(1)", "'{a[b]} {a[c][0]} {m.x}'.format(a={'b': 1, 'c': [2]}, m={'x': 3})",
    "'{'.format()", "'}'.format()", "'{}'.format()", "'{} {0}'.format(1)", "'{x}'.format()", "'{:d}'.format('a')", "'{:s}'.format(1)", "'{!s:>4}'.format(1)", "'{:{}}'.format('a', 5)", "'{:{w}.{p}f}'.format(3.14159, w=8, p=2)", "'{!x}'.format(1)", "'{:>3}'.format(none)", "'{}'.format(none)", "'{:5}'.format(true)", "'{}'.format(true)", "'{:d}'.format(3.5)", "'{:.1f}'.format(3)", "'{:,}'.format(1234.5)", "'{:08,}'.format(1234)", "'{:=+7d}'.format(42)", "'{:é>4}'.format('a')", "'{:.2}'.format('abc')", "'{0.__class__}'.format(1)", "'{}'.format(missing)", "'{}{}'.format(*[1, 2])", "'{a}'.format(**{'a': 1})", "'{a}'.format_map({'a': 1})",
    "'{:.0f} {:.0f} {:.0f}'.format(0.5, 1.5, 2.5)", "'{:g} {:g} {:g}'.format(1e20, 123456, 1234567)", "'{:.3g}|{:#.3g}|{:10.4g}|'.format(1.0, 1.0, 3.14159)", "'{:n}'.format(5)", "'{: d}'.format(5)", "'{:-d}'.format(-5)", "'{:e}'.format(0)", "'{}'.format(1.0)", "'{:.3}'.format(123.0)", "'{:.4}'.format(123.0)", "'{:.1}'.format(3.0)", "'{:>10}'.format(2.5)", "'{:<6}|'.format(1.5)", "'{:06.2f}'.format(-1.5)", "'{:\"<5}'.format('a')",
    "'%s %s' % (1, 'a')", "'%d' % 5", "'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)", "'%.2f' % 3.14159", "'%x %X %o %#x' % (255, 255, 8, 255)", "'%e %g' % (1234.5, 0.0001)", "'%%'  % ()", "'%s' % none", "'%r' % 'a'", "'%c%c' % ('a', 66)", "'%s'  % [1, 2]", "'%(a)s %(b)d' % {'a': 1, 'b': 2}", "'%s' % (1, 2)", "'%s %s' % 1", "'%d' % 'a'", "'%d' % 3.7", "'%q' % 1", "'%' % 1", "'%s' % missing", "'%5s|%-5s|%.1s' % ('a', 'b', 'cd')", "'%*d' % (5, 1)", "'a' % {}", "'a' % 1", "'a' % []", "'%(x)s' % {}", "'%i %u' % (1, 2)", "'%.3d' % 5", "'%s' % 'é'", "'%G' % 1e-10", "'%05.1f' % 2.25", "'% d' % 5", "'%s' % ()", "'%s' % (missing,)",
    "('<a>' | safe) + '<b>'", "'<b>' + ('<a>' | safe)", "('<%s>' | safe) % '<x>'", "('<{}>' | safe).format('<x>')", "('a' | safe) ~ '<b>'", "['<a>' | safe]", "('<a>' | safe) | upper", "('a' | safe) == 'a'", "('<a> b' | safe).split()", "('<a>' | safe) * 2", "('<' | safe).join(['>'])", "('<' | safe).replace('<', '>')", "('ab' | safe)[0] + '<'", "'<' | e", "'<' | escape | escape", "'<' | forceescape", "('<' | e) + '>'", "5 | e", "'<a>' | safe | length", "('<' | safe) in '<a>'",
]
TEXT = ["{{ %s }}" % e for e in _TEXT]

FILTERS = [
    "{{ %s }}" % e for e in [
        "{'b': 1, 'a': [1, 2.0, none, true, 'é\\n\"<&>']} | tojson", "'é' | tojson(ensure_ascii=true)", "'😀' | tojson(true)", "{'b': 1, 'a': {'c': []}} | tojson(indent=2)", "[1, [2, {}]] | tojson(indent=1)", "[1, 2] | tojson(indent='\\t')", "[1, {'a': 2}] | tojson(separators=(',', ':'))", "[1, {'a': 2}] | tojson(separators=(', ', '= '), indent=2)", "{'b': 1, 'a': 2} | tojson(sort_keys=true)", "[] | tojson(indent=2)", "{} | tojson(indent=2)", "[1] | tojson(indent=0)", "[1] | tojson(indent=none)",
        "missing | tojson", "{1: 2, none: 3, true: 4, 1.5: 5} | tojson", "{(1, 2): 3} | tojson", "(1, 2) | tojson", "range(3) | tojson", "1.0 | tojson", "1e22 | tojson", "(1e308 * 10) | tojson", "'\\x7f\\x1f\\u2028/' | tojson", "'\\x7f' | tojson(ensure_ascii=true)", "messages[2] | tojson", "messages | tojson(indent=4)", "namespace() | tojson", "('<' | safe) | tojson", "{'a': 1, 2: 3} | tojson(sort_keys=true)", "[missing] | tojson", "true | tojson", "12345678901234567890 | tojson", "{'a': 1}.items() | tojson", "[1] | tojson(nothing=1)", "messages[2].tool_calls[0].function.arguments | tojson",
        "'  x ' | trim", "'xax' | trim('x')", "5 | trim", "none | trim", "'abc' | length", "'éé' | length", "[1, 2] | count", "{} | length", "missing | length", "5 | length", "none | length", "[1, 2, 3] | join", "[1, 2, 3] | join(', ')", "['a', none, 1.0, true] | join('-')", "messages | join(',', attribute='role')", "'abc' | join('-')", "missing | join(',')", "5 | join", "{'a': 1, 'b': 2} | join('+')", "[[1, 2], [3]] | join(' ')",
        "messages | map(attribute='role') | list", "messages | map(attribute='nothing', default='-') | join(',')", "messages | map(attribute='nothing') | list", "['a', 'b'] | map('upper') | join", "[1, 2] | map('string') | join('+')", "['a b'] | map('replace', 'a', 'x') | list", "messages | map(attribute='content.0') | list", "[1] | map('nofilter') | list", "[1] | map | list", "[{'a': {'b': 1}}] | map(attribute='a.b') | list", "[[1, 2], [3, 4]] | map(attribute=1) | list", "[1, 2] | map('nofilter')  is defined", "[' a '] | map('trim') | list", "[[3, 1]] | map('sort') | list", "[1] | map(attribute='x', nothing=1) | list", "['a'] | map('default', 'x') | list",
        "[1, 2, 3, 4] | select('odd') | list", "[1, 2, 3, 4] | reject('odd') | list", "[0, 1, '', 'a', none] | select | list", "[0, 1] | reject | list", "messages | selectattr('role', 'equalto', 'user') | list | length", "messages | selectattr('tool_calls') | list | length", "messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='role') | list", "messages | selectattr('tool_calls', 'defined') | map(attribute='role') | list", "[1, 5, 9] | select('gt', 4) | list", "[1] | select('notest') | list", "messages | selectattr | list", "[] | selectattr | list", "messages | selectattr('role', '==', 'user') | first", "[3, 6] | select('divisibleby', 2) | list", "['a', 'B'] | select('upper') | list", "[1, 'a'] | select('string') | list",
        "'abc' | list", "{'a': 1} | list", "(1, 2) | list", "missing | list", "5 | list", "[1, 2] | first", "[] | first", "[] | first is defined", "'abc' | last", "[1, 2] | last", "[] | last is defined", "{'a': 1, 'b': 2} | first", "{'a': 1, 'b': 2} | last", "range(3) | last", "missing | first is defined", "5 | first", "([1, 2] | map('string')) | first", "([1, 2] | map('string')) | last", "missing | last is defined",
        "missing | default('d')", "none | default('d')", "none | default('d', true)", "'' | d('e', boolean=true)", "0 | default(5)", "missing | default", "missing.x | default('a')", "messages[0].x | default('a')", "missing | default(default_value=3)", "1 | default(2, 3, 4)",
        "'aBc' | upper", "'aBc' | lower", "5 | upper", "none | lower", "'hello world-foo (bar) [x] {y} <z> it\\'s' | title", "'hELLO wORLD' | capitalize", "'aXbX' | replace('X', '-')", "'aXbX' | replace('X', '-', 1)", "123 | replace(2, 'x')", "'a' | replace('a')", "5 | string + '5'", "missing | string", "[1] | string", "'abc' | reverse", "[1, 2, 3] | reverse | list", "(1, 2) | reverse | list", "{'a': 1, 'b': 2} | reverse | list", "5 | reverse", "'éa' | reverse",
        "'42' | int", "'42.9' | int", "'x' | int", "'x' | int(7)", "'ff' | int(base=16)", "'0x1f' | int(0, 16)", "'0b11' | int(base=2)", "' 5 ' | int", "'1_000' | int", "'-5' | int", "none | int", "3.9 | int", "-3.9 | int", "true | int", "[] | int(3)", "missing | int", "'1e3' | int", "'' | int", "'12' | int(base=99)", "'017' | int(base=0)", "'0o17' | int(base=0)", "'--5' | int", "'inf' | int(3)", "'nan' | int(4)", "'9999999999999999999999' | int", "(1e308 * 10) | int", "'1_' | int",
        "'3.5' | float", "'x' | float", "'x' | float(1.5)", "5 | float", "true | float", "none | float", "'1e3' | float", "' 2 ' | float", "'inf' | float", "'-inf' | float", "'nan' | float", "missing | float", "[] | float(2)", "'1_0.5' | float", "'0x10' | float", "'1e400' | float", "'1e-400' | float", "'.5' | float", "'5.' | float", "'+1' | float", "'+-1' | float", "'infinity' | float", "'e5' | float",
        "42.55 | round", "42.55 | round(1)", "42.55 | round(1, 'floor')", "42.51 | round(1, 'ceil')", "2.5 | round", "3.5 | round", "-2.5 | round", "5 | round", "15 | round(-1)", "25 | round(-1)", "2.675 | round(2)", "1234.5 | round(-2)", "'a' | round", "2.5 | round(0, 'x')", "true | round", "1e300 | round(2)", "5 | round(2, 'ceil')", "1.005 | round(2)", "0.5 | round | int", "missing | round", "-7 | round(-1)",
        "[3, 1, 2] | sort", "[3, 1, 2] | sort(reverse=true)", "['b', 'A', 'a', 'B'] | sort", "['b', 'A', 'a', 'B'] | sort(case_sensitive=true)", "messages | sort(attribute='role') | map(attribute='role') | list", "messages | sort(attribute='role,content', reverse=true) | map(attribute='content') | list", "[1, 'a'] | sort", "[[2, 1], [1, 2]] | sort", "[true, 0, 2.5, -1] | sort", "{'b': 1, 'a': 2} | sort", "'cab' | sort", "[none, 1] | sort", "[{'a': 1}, {'a': 1}] | sort", "[{'a': 1}, {'b': 1}] | sort", "[] | sort", "['b', 'a', 'C'] | sort(true)", "messages | sort(attribute='nothing')",
        "{'b': 1, 'A': 3, 'c': 2} | dictsort", "{'b': 1, 'A': 3} | dictsort(true)", "{'b': 1, 'a': 3} | dictsort(by='value')", "{'b': 1, 'a': 3} | dictsort(reverse=true)", "{'b': 1} | dictsort(by='x')", "missing | dictsort", "[1] | dictsort", "{1: 'a', 'b': 2} | dictsort", "{'a': 'B', 'b': 'a'} | dictsort(false, 'value')", "{} | dictsort",
        "{'a': 1, 'b': 2} | items | list", "missing | items | list", "[1] | items | list", "[1, 2, 1, 'a', 'A'] | unique | list", "['a', 'A'] | unique(true) | list", "messages | unique(attribute='role') | map(attribute='role') | list", "[1, 1.0, true] | unique | list", "[[1], [1]] | unique | list", "[3, 1, 2] | min", "[3, 1, 2] | max", "['b', 'A'] | min", "['b', 'A'] | max(case_sensitive=true)", "[] | min is defined", "messages | max(attribute='role') | string | length", "[1, 'a'] | max", "'bca' | max", "[1, true, 1.0] | min", "[1, 2, 3] | sum", "[1, 2] | sum(start=10)", "[{'a': 1}, {'a': 2}] | sum(attribute='a')", "[] | sum", "['a'] | sum", "[[1], [2]] | sum(start=[])", "[1.5, 2] | sum", "-5 | abs", "-5.5 | abs", "true | abs", "'a' | abs", "missing | abs",
        "[1, 2, 3, 4, 5] | batch(2) | list", "[1, 2, 3] | batch(2, 0) | list", "[1, 2] | batch(0) | list", "[1, 2, 3, 4, 5] | slice(3) | list", "[1, 2, 3, 4] | slice(3, 'x') | list", "[1] | slice(0) | list", "[1] | slice(-1) | list", "[1, 2] | slice(2, 'x') | list", "messages | groupby('role') | map(attribute='grouper') | list", "(messages | groupby('role'))[0].list | length", "(messages | groupby('role'))[0][0]", "messages | groupby('nothing', default='z') | map(attribute=0) | list", "['b', 'a', 'B'] | groupby(0) | list", "[{'c': 'CA'}, {'c': 'NY'}, {'c': 'ca'}] | groupby('c') | list", "[{'c': 'CA'}, {'c': 'ca'}] | groupby('c', case_sensitive=true) | list",
        "'a\\nb\\n\\nc' | indent", "'a\\nb' | indent(2, true)", "'a\\n\\nb' | indent(2, blank=true)", "'a\\nb' | indent('> ')", "'a\\nb\\n' | indent", "'' | indent", "'\\na' | indent(first=true)", "5 | indent", "missing | indent", "'a\\r\\nb' | indent(1)", "'abc' | center(7)", "'a' | center(4) ~ '|'", "'foo bar baz qux' | truncate(9)", "'foo bar baz qux' | truncate(9, true)", "'foo bar baz qux' | truncate(11)", "'foo bar baz qux' | truncate(11, false, '...', 0)", "'a' | truncate(1)", "'foo bar' | truncate(2, end='')", "'éééééééé éé' | truncate(5, true, '…', 0)", "'a b_c-d é1' | wordcount", "'' | wordcount", "'<p>a  <b>b</b></p><!-- c > --> d &lt;' | striptags", "'a < b' | striptags",
        "'%s-%d' | format('a', 5)", "'%(x)s' | format(x=1)", "'%s' | format(1, x=2)", "'a b/c?é&=~' | urlencode", "{'a b': 'c/d', 'e': 1} | urlencode", "[('x', 'y z')] | urlencode", "5 | urlencode", "1000 | filesizeformat", "1 | filesizeformat", "0 | filesizeformat", "1500000 | filesizeformat", "1024 | filesizeformat(true)", "1e30 | filesizeformat", "'x' | filesizeformat", "{'a': 1} | attr('a') is defined", "namespace(a=1) | attr('a')", "'x' | attr('upper') is defined", "'x' | attr('nothing') is defined", "[1, 2, 3] | sort | reverse | list | first", "messages | list | length", "messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('trim') | join('|')",
        "([1, 2] | map('string')) is iterable", "([1, 2] | map('string')) is sequence", "([] | map('string')) and 1", "([1] | select) | length", "([3, 1] | map('int')) | sort", "'abc' | select('equalto', 'b') | list", "[1, 2] | random(1, 2, 3)",
    ]
] + [
    "{% set g = [1, 2] | map('string') %}{{ g | join }}-{{ g | join }}", "{% for x in [1, 2, 3] | select('odd') %}{{ loop.index }}{{ loop.length }}{{ loop.last }}{{ x }} {% endfor %}",
    "{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "{% for k, v in {'b': 1} | items %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}", "{% for city, xs in messages | groupby('role') %}{{ city }}:{{ xs | length }} {% endfor %}",
    "{% for x in messages | reverse %}{{ x.role }}{{ loop.revindex }} {% endfor %}", "{% if x %}{{ 1 | nofilter }}{% endif %}ok", "{% if true %}{{ 1 | nofilter }}{% endif %}", "{% if x %}{% for a in b %}{{ a | nofilter }}{% endfor %}{% endif %}",
    "{% if x %}{% set y = z | nofilter %}{% endif %}ok", "{% set g = [1, 2, 3] | map('string') %}{% for a in g %}{{ a }}{{ loop.nextitem }} {% endfor %}{{ g | list }}", "{% if x %}{{ 1 if 1 is nosuch }}{% endif %}ok",
]

_TESTED = {"missing": "missing", "none": "none", "true": "true", "zero": "0", "one": "1", "float": "2.0", "text": "'aB'", "empty": "''", "list": "[1]", "tuple": "(1,)", "dict": "{'a': 1}", "range": "range(2)", "items": "{}.items()",
           "generator": "([1] | map('string'))", "macro": "joiner", "namespace": "namespace()", "method": "'a'.upper", "markup": "('a' | safe)"}
TESTS = ["{{ %s is %s }}{{ %s is not %s }}" % (value, test, value, test)
         for test in ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "callable", "escaped"] for value in _TESTED.values()] + [
    "{{ %s }}" % e for e in [
        "3 is odd", "4 is even", "2.0 is even", "'a' is odd", "none is even", "missing is odd", "9 is divisibleby 3", "9 is divisibleby(4)", "9 is divisibleby 0", "9 is divisibleby", "1 is in [1, 2]", "1 is in(1, 2)", "'a' is in 'abc'", "1 is not in [1]", "5 is eq 5", "5 is equalto(6)", "5 is ne 6", "5 is lt 6", "5 is le 5", "5 is gt 4", "5 is ge 6", "5 is lessthan 6", "5 is greaterthan 6", "'a' is lower", "'A' is lower", "'A' is upper", "1 is upper", "none is sameas none", "true is sameas true", "1 is sameas true",
        "[] is sameas []", "messages is sameas messages", "'upper' is filter", "'nothing' is filter", "'odd' is test", "'x' is test", "5 is filter", "1 is odd is even", "not 1 is odd", "1 is odd and 2 is even", "1 is odd or x", "1 is odd if true else 2", "5 is eq(5) and true", "5 is eq -5", "'a' is eq 'a' 'b'", "[1] is eq [1]", "{'a': 1} is eq {'a': 1}", "messages[0].content is string and messages[0].content", "1 is not odd", "x.y is defined", "messages[0].x is undefined", "messages[0]['role'] is eq messages[0].role", "5 is number(1)", "1 is foo.bar", "1 is ==(1)",
    ]
]

_PUBLISHED_STYLE_QWEN = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
_TOOLS_STYLE = """
{%- macro type_of(spec) -%}
    {%- if spec.type is string -%}{{ spec.type }}
    {%- elif spec.type is sequence -%}{{ spec.type | join(' | ') }}
    {%- else -%}any{%- endif -%}
    {%- if spec.enum is defined %} of {{ spec.enum | tojson }}{% endif -%}
{%- endmacro -%}
{{- bos_token }}
{%- if tools is not none and tools | length > 0 %}
    {{- '<tools>\\n' }}
    {%- for tool in tools %}
        {%- set f = tool.function %}
        {{- f.name ~ '(' }}
        {%- for name, spec in f.parameters.properties.items() %}
            {{- name }}{{ '' if name in (f.parameters.required or []) else '?' }}: {{ type_of(spec) }}
            {%- if not loop.last %}, {% endif %}
        {%- endfor %}
        {{- ')' }}
        {%- if f.description %} // {{ f.description }}{% endif %}
        {{- '\\n' }}
    {%- endfor %}
    {{- '</tools>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<result>' + message.content + '</result>\\n' }}
    {%- elif message.tool_calls is defined and message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '<call>' ~ {'name': call.function.name, 'arguments': call.function.arguments} | tojson ~ '</call>\\n' }}
        {%- endfor %}
    {%- elif message.content is string %}
        {{- '[' + message.role + '] ' + message.content | trim + eos_token + '\\n' }}
    {%- else %}
        {{- raise_exception('Parts are not supported: ' ~ message.content | length) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '[assistant] ' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think></think>' }}
    {%- endif %}
{%- endif %}
"""
_ALTERNATE_STYLE = ("{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}"
                    "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% elif m['role'] == 'assistant' %}{% generation %}{{ ' ' + m['content'] + eos_token }}{% endgeneration %}{% endif %}{% endfor %}")
TEMPLATES = [
    (_PUBLISHED_STYLE_QWEN, {"messages": PARTS}), (_PUBLISHED_STYLE_QWEN, {"messages": PARTS, "add_vision_id": True}), (_PUBLISHED_STYLE_QWEN, {"messages": MESSAGES[:2], "add_generation_prompt": False}),
    (_TOOLS_STYLE, {"messages": MESSAGES, "tools": TOOLS}), (_TOOLS_STYLE, {"messages": MESSAGES}), (_TOOLS_STYLE, {"messages": PARTS}), (_TOOLS_STYLE, {"messages": MESSAGES[:1], "enable_thinking": False}),
    (_ALTERNATE_STYLE, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]}), (_ALTERNATE_STYLE, {"messages": MESSAGES}),
    ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ messages | length }}{{ functions is defined }}", {}),
    ("{{ messages }}", {"messages": MESSAGES}), ("{{ messages[0] }}", {"messages": PARTS}), ("{{ tools | tojson(indent=2) }}", {"tools": TOOLS}), ("{{ documents }}", {"documents": [{"title": "t", "text": "x"}]}),
]

def _characters(*ranges):
    return "".join(chr(code) for first, last in ranges for code in range(first, last + 1))


_SCRIPTS = [
    _characters((0x01, 0x17F)), _characters((0x180, 0x24F), (0x250, 0x2FF)), _characters((0x370, 0x377), (0x37A, 0x3FF)), _characters((0x400, 0x52F), (0x531, 0x556), (0x561, 0x587)),
    _characters((0x5D0, 0x5EA), (0x621, 0x669), (0x904, 0x96F), (0xE01, 0xE3A), (0x10A0, 0x10C5), (0x10D0, 0x10F0)), _characters((0x1E00, 0x1EFF)), _characters((0x1F00, 0x1F15), (0x1F80, 0x1FB4), (0x1FB6, 0x1FC4)),
    _characters((0x2000, 0x206F), (0x20A0, 0x20BF), (0x2100, 0x218B)), _characters((0x2460, 0x24FF), (0x2C00, 0x2C2F), (0x3000, 0x30FF), (0xFB00, 0xFB06), (0xFB13, 0xFB17), (0xFEFF, 0xFEFF), (0xFF10, 0xFF5A)),
    "数据 한국어 😀👍🏽👩‍👩‍👧 𝐀𝐁 𐐀𐐨 \U000E0041 \U0010FFFF \uFFFD",
]
_CASES = ["{{ x.%s() }}" % m for m in ["upper", "lower", "title", "capitalize", "swapcase"]] + [
    "{{ x | title }}", "{{ [x] }}", "{{ x | tojson }}", "{{ x | tojson(ensure_ascii=true) }}", "{{ x | length }}", "{{ x[::-1] }}", "{{ x[3:-3] }}", "{{ x.split() }}", "{{ x.splitlines() }}", "{{ x | wordcount }}", "{{ x | urlencode }}",
    "{% for c in x %}{{ 'U' if c.isupper() }}{{ 'L' if c.islower() }}{{ 'T' if c.istitle() }}{{ 'A' if c.isalpha() }}{{ 'N' if c.isalnum() }}{{ 'S' if c.isspace() }}{{ 'P' if c.isprintable() }}{{ '9' if c.isdecimal() }},{% endfor %}"]
_SCRIPT_VARIABLES = {f"s{i}": script for i, script in enumerate(_SCRIPTS)}
UNICODE = ["{%% set x = %s %%}%s" % (name, template) for name in _SCRIPT_VARIABLES for template in _CASES]

_PLAIN = {"messages": MESSAGES}
FILES = {
    "whitespace": ({}, WHITESPACE),
    "statements": (_PLAIN | {"tree": [{"v": "a", "c": [{"v": "b"}, {"v": "c", "c": [{"v": "d"}]}]}, {"v": "e"}]}, STATEMENTS),
    "scopes": (_PLAIN | {"bos": "<s>"}, SCOPES),
    "expressions": (_PLAIN, EXPRESSIONS),
    "text": ({}, TEXT),
    "filters": (_PLAIN, FILTERS),
    "tests": (_PLAIN, TESTS),
    "unicode": (_SCRIPT_VARIABLES, UNICODE),
    "templates": ({"bos_token": "<s>", "eos_token": "</s>"}, TEMPLATES),
}
