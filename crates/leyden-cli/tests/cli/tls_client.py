"""Python's ssl, http.client and requests against a server with TLS that requires certificates of clients.

Usage: tls_client.py HOST:PORT AUTHORITY CERTIFICATE KEY
"""

import http.client
import json
import socket
import ssl
import sys

import requests

address, authority, certificate, key = sys.argv[1:]
host, port = address.rsplit(":", 1)
port = int(port)


def context(own=True, low=ssl.TLSVersion.TLSv1_2, high=ssl.TLSVersion.TLSv1_3, ciphers=None):
    made = ssl.create_default_context(cafile=authority)
    made.minimum_version, made.maximum_version = low, high
    if ciphers:
        made.set_ciphers(ciphers)
    if own:
        made.load_cert_chain(certificate, key)
    return made


def version(made, name="localhost"):
    """Returns the version and the suite of a connection on which a request was answered."""
    with socket.create_connection((host, port), timeout=60) as plain:
        with made.wrap_socket(plain, server_hostname=name) as stream:
            stream.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = b""
            while part := stream.recv(4096):
                answer += part
            assert answer.startswith(b"HTTP/1.1 200"), answer
            return stream.version(), stream.cipher()[0]


def refused(made, name="localhost"):
    try:
        got = version(made, name)
    except (ssl.SSLError, ConnectionError) as error:
        return str(error)
    raise AssertionError(f"not refused: {got}")


V = ssl.TLSVersion
print(version(context(low=V.TLSv1_3)), version(context(high=V.TLSv1_2)))
for old in V.TLSv1, V.TLSv1_1:
    print(old.name, refused(context(low=old, high=old, ciphers="ALL:@SECLEVEL=0")))
for weak in "AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA256", "NULL", "DHE":
    print(weak, refused(context(high=V.TLSv1_2, ciphers=f"{weak}:@SECLEVEL=0")))
assert "mismatch" in refused(context(), "example.org").lower()
print("no certificate:", refused(context(own=False)))
print("no certificate, 1.2:", refused(context(own=False, high=V.TLSv1_2)))

connection = http.client.HTTPConnection(host, port, timeout=60)
connection.request("GET", "/health")
answer = connection.getresponse()
assert answer.status == 400 and b"https://" in answer.read()

url = f"https://localhost:{port}"
session = requests.Session()
session.verify, session.cert, session.trust_env = authority, (certificate, key), False
models = session.get(f"{url}/v1/models")
assert models.status_code == 200 and models.json()["data"], models.text
body = {"prompt": "Once upon a time", "max_tokens": 200, "stream": True, "ignore_eos": True}
with session.post(f"{url}/v1/completions", json=body, stream=True) as streamed:
    lines = [line for line in streamed.iter_lines() if line.startswith(b"data: {")]
assert len(lines) > 1 and "".join(json.loads(line[6:])["choices"][0]["text"] for line in lines).strip()
assert session.get(f"{url}/metrics").status_code == 403, "the certificate's line has no such scope"
try:
    requests.get(f"{url}/v1/models", verify=authority)
except (requests.exceptions.SSLError, requests.exceptions.ConnectionError):
    pass
else:
    raise AssertionError("without a certificate")
print("ok")
