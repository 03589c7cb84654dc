"""Judges JSON that weir printed by the schemas that weir printed: outputs.py LIST.json

LIST.json: [{"name": "show ports", "schema": {…}, "values": […]}, …]. Prints every fault; exit code 1 if there is one.
"""

import json
import sys

from jsonschema.validators import validator_for

faults = 0
for entry in json.load(open(sys.argv[1])):
    schema = entry["schema"]
    kind = validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema)
    for value in entry["values"]:
        for error in validator.iter_errors(value):
            faults += 1
            print(f"{entry['name']}: {error.json_path}: {error.message[:300]}")
            for part in sorted(error.context or [], key=lambda part: -len(part.path))[:5]:
                print(f"    {part.json_path}: {part.message[:200]}")
sys.exit(1 if faults else 0)
