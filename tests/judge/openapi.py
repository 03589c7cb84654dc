"""Validates an OpenAPI description with an independent validator, and answers by its schemas.

Standard input: {"description": …, "answers": {path: answer}}. Prints faults; nothing: there are none.
"""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator


def main():
    given = json.load(sys.stdin)
    description = given["description"]
    faults = [error.message for error in OpenAPIV31SpecValidator(description).iter_errors()]
    for path, answer in given["answers"].items():
        content = description["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        # References lead into the description.
        schema = {"components": description["components"], **content}
        for error in Draft202012Validator(schema).iter_errors(answer):
            faults.append(f"{path}: {error.json_path}: {error.message[:300]}")
    print("\n".join(faults), end="")


main()
