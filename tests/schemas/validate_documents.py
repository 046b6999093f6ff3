"""Validates documents that mc2 wrote against schemas/, and checks that changed documents fail.

usage: validate_documents.py SCHEMAS_DIRECTORY DOCUMENTS_DIRECTORY [KIND]

Every kind that has a schema must be among the documents. With KIND, all documents must be of this kind.
"""

import copy
import json
import pathlib
import sys
import warnings

import jsonschema

OPTIONAL_KEYS = {
    "certificate",
    "validation",
    "options",
    "sensitivity",
    "measured",
    "difference",
    "kept_us",
    "one_percent_value",
    "end_loss",
    "anchored_interval",
    "serial",
    "is_local_first",
    "is_serial",
    "local_compute",
    "restriction_cost",
    "epilogue",
    "neighbour_loss",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "reduce_scatter",
    "benefit_interval",
    "uncertainty",
    "measured_at",
    "predicted_serial_us",
    "spread",
    "expires_at",
    "revoked_at",
    "model_digest",
    "plan_digest",
    "slowdown_interval",
    "start_interval",
    "start_ns",
    "start_us",
    "run_us",
    "open_steps",
    "block_overhead_us",
    "measured_us",
    "is_believed",
    "foretold_us",
    "cut_accounts",
    "compute_blocks_us",
    "communication_blocks_us",
    "relative_error",
    "config",
    "experts",
    "experts_per_rank",
    "counts",
    "head_columns",
    "key_value_heads",
    "latent",
    "mlp_inner",
}
OPTIONAL_OF_SITES = {"op", "ranges", "reason"}
FREE_OBJECTS = {"fingerprint", "numbers", "fields", "sources", "dtypes", "algorithms"}  # objects with any keys


def with_keys_once(pairs):
    """Makes an object of a schema. json would keep the last of two equal keys, and so hide that they differ."""
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key stands twice among {keys}"
    return dict(pairs)


def load_validators(directory):
    """Returns one validator per document kind, keyed by its schema name, e.g. "mc2.plan/1"."""
    schemas = {
        path.name: json.loads(path.read_text(), object_pairs_hook=with_keys_once)
        for path in sorted(directory.glob("*.schema.json"))
    }
    validators = {}
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer versions prefer `referencing`
            resolver = jsonschema.RefResolver(name, schema, store=schemas)
        kind = schema.get("properties", {}).get("schema", {}).get("const")
        if kind:
            validators[kind] = jsonschema.Draft202012Validator(schema, resolver=resolver)
    return validators


def places(value, path=()):
    """Yields the path of every value inside a document, but not of the document itself."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield path + (key,)
        yield from places(child, path + (key,))


def parent_of(document, path):
    for key in path[:-1]:
        document = document[key]
    return document


def is_free(path):
    """True for an object whose keys are the user's own. A fingerprint document has its keys under "fields"."""
    return bool(path) and path[-1] in FREE_OBJECTS


def is_optional(path, document):
    if path[0] == "sites" and len(path) == 3 and path[-1] in OPTIONAL_OF_SITES:
        return True
    if document.get("schema") == "mc2.plan_table/1" and len(path) == 3:
        return path[-1].startswith(("benefit_", "measured_", "neighbour_"))
    if path == ("machines",) or path[0] == "changes" and (path[-1] in ("purpose", "row") or "row" in path[:-1]):
        return path[-1] not in ("row_id", "nonce")  # only plans have a purpose; rows are for replicas
    if path in (("samples",), ("models",), ("measurements",)) and document.get("schema") == "mc2.pruned/1":  # optional
        return True
    return path[-1] in OPTIONAL_KEYS or "options" in path[:-1] or is_free(path[:-1])


def place_of(document, path):
    """Identifies a place in a schema. All elements of a list with the same form are one place."""
    value = parent_of(document, path)[path[-1]]
    form = frozenset(value) if isinstance(value, dict) else type(value)
    return (document.get("schema"), tuple("*" if isinstance(key, int) else key for key in path), form)


def mutations(document, known):
    """Yields (what was changed, changed document); each such document must be refused. Leaves out the places in `known`
    and adds the others to it."""
    changed = dict(document, unknown_key=1)
    yield "unknown key at the root", changed
    for path in places(document):
        place = place_of(document, path)
        if place in known:
            continue
        known.add(place)
        value = parent_of(document, path)[path[-1]]
        for wrong in ({"unknown_key": [1]}, None):
            changed = copy.deepcopy(document)
            parent_of(changed, path)[path[-1]] = wrong
            yield f"{path} replaced by {wrong}", changed
        if isinstance(path[-1], str) and not is_optional(path, document):
            changed = copy.deepcopy(document)
            del parent_of(changed, path)[path[-1]]
            yield f"{path} removed", changed
        if isinstance(value, dict) and not is_free(path):
            changed = copy.deepcopy(document)
            parent_of(changed, path)[path[-1]]["unknown_key"] = "text"
            yield f"unknown key in {path}", changed
        if isinstance(value, int) and not isinstance(value, bool):
            changed = copy.deepcopy(document)
            parent_of(changed, path)[path[-1]] = -1
            yield f"{path} made negative", changed


def check(path, validators, known):
    """Returns the problems with one document and its mutations, and the number of mutations."""
    document = json.loads(path.read_text())
    validator = validators.get(document.get("schema"))
    if validator is None:
        return [f"{path.name}: no schema for {document.get('schema')}"], 0
    problems = [f"{path.name}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    count = 0
    for what, changed in mutations(document, known):
        count += 1
        if validator.is_valid(changed):
            problems.append(f"{path.name}: accepted with {what}")
    return problems, count


def main(schemas_directory, documents_directory, kind=None):
    validators = load_validators(pathlib.Path(schemas_directory))
    if kind:
        validators = {kind: validators[kind]}
    documents = sorted(pathlib.Path(documents_directory).glob("*.json"))
    problems, mutation_count, seen, known = [], 0, set(), set()
    for path in documents:
        found, count = check(path, validators, known)
        problems += found
        mutation_count += count
        seen.add(json.loads(path.read_text()).get("schema"))
    problems += [f"no document tests {kind}" for kind in sorted(set(validators) - seen)]
    print(
        f"{len(documents)} documents valid, {mutation_count} mutations refused"
        if not problems
        else "\n".join(problems[:50])
    )
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
