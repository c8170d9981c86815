"""Pages of the API out of its OpenAPI description: every path, and every request with its fields."""
import re

PATHS_HEAD = '''# Every path

Made from `/openapi.json` of Saccade {version} serving `models/glimpse` when this site was built; a running server gives its own at the same
path. What the paths mean, and what errors look like, is in [The API](../docs/api.md). With `--api-key`, paths marked with a key want
`Authorization: Bearer KEY`.

'''
REQUESTS_HEAD = '''# Every request

The fields of each request's JSON body, by name, with the types that are read; "any" is a field that is read as it comes, or known and
not acted upon. [Structured output](../docs/structured-output.md), [tools](../docs/tools.md) and [the API](../docs/api.md) say what they do.

'''


def write(description, folder):
    folder.mkdir(parents=True, exist_ok=True)
    schemas = description.get('components', {}).get('schemas', {})
    used = {}
    (folder / 'paths.md').write_text(_paths(description, used), encoding='utf-8')
    (folder / 'requests.md').write_text(_requests(schemas, used), encoding='utf-8')


def _paths(description, used):
    operations = [(path, method, operation) for path, methods in description['paths'].items() for method, operation in methods.items()]
    text = [PATHS_HEAD.format(version=description['info']['version']), '| | path | | key |', '|---|---|---|---|']
    for path, method, operation in operations:
        text.append(f'| {method.upper()} | [`{path}`](#{_anchor(method, path)}) | {_cell(operation.get("summary", ""))} | '
                    f'{"yes" if operation.get("security") else ""} |')
    for path, method, operation in operations:
        text += ['', f'## {method.upper()} {path} {{ #{_anchor(method, path)} }}', '', operation.get('summary', '') + '.']
        if operation.get('parameters'):
            text += ['', '| parameter | in | type | required |', '|---|---|---|---|']
            text += [f'| `{parameter["name"]}` | {parameter["in"]} | {_type(parameter.get("schema", {}))} | '
                     f'{"yes" if parameter.get("required") else ""} |' for parameter in operation['parameters']]
        for kind, body in operation.get('requestBody', {}).get('content', {}).items():
            name = _schema_name(body.get('schema', {}))
            if name:
                used.setdefault(name, []).append((method, path))
                text += ['', f'Body: [{name}](requests.md#{name.lower()}), `{kind}`.']
        text += ['', '| status | |', '|---|---|']
        text += [f'| {status} | {_cell(answer.get("description", ""))} |' for status, answer in operation.get('responses', {}).items()]
    return '\n'.join(text) + '\n'


def _requests(schemas, used):
    text = [REQUESTS_HEAD]
    for name, schema in schemas.items():
        text += ['', f'## {name} {{ #{name.lower()} }}', '']
        users = ', '.join(f'[`{method.upper()} {path}`](paths.md#{_anchor(method, path)})' for method, path in used.get(name, ()))
        text.append(f'Body of {users}.' if users else 'Of a path that the model served here has not.')
        text.append('')
        required = schema.get('required', [])
        fields = schema.get('properties', {})
        told = any(_remarks(field) for field in fields.values())  # a column that would be empty is left out
        text += ['| field | type | required |' + (' |' if told else ''), '|---|---|---|' + ('---|' if told else '')]
        # What is required is what one looks for first.
        for field in sorted(fields, key=lambda field: (field not in required, field)):
            row = f'| `{field}` | {_type(fields[field])} | {"yes" if field in required else ""} |'
            text.append(row + (f' {_remarks(fields[field])} |' if told else ''))
    return '\n'.join(text) + '\n'


def _remarks(schema):
    said = [_cell(schema['description'])] if schema.get('description') else []
    said += [f'one of {", ".join(f"`{value}`" for value in schema["enum"])}'] if schema.get('enum') else []
    said += [f'{word} {schema[key]}' for key, word in (('default', 'default'), ('minimum', 'from'), ('maximum', 'to')) if key in schema]
    return '; '.join(said)


def _type(schema):
    name = _schema_name(schema)
    if name:
        return f'[{name}](requests.md#{name.lower()})'
    for key in ('anyOf', 'oneOf'):
        if key in schema:
            return ' or '.join(_type(one) for one in schema[key])
    kinds = schema.get('type', 'any')
    kinds = kinds if isinstance(kinds, list) else [kinds]
    # Null is "not given" for every field, and would say nothing in every row.
    return ' or '.join(kind for kind in kinds if kind != 'null') or 'null'


def _schema_name(schema):
    return schema.get('$ref', '').rpartition('/')[2]


def _anchor(method, path):
    return f'{method}-' + re.sub(r'[^a-z0-9]+', '-', path.lower()).strip('-')


def _cell(text):
    return text.replace('|', '\\|').replace('\n', ' ')
