"""A collector of OpenTelemetry for one message, which is read by OpenTelemetry's own definitions.

Prints its port, and then the names of the spans of the message, in order, with the service's name first.
"""

import base64
import http.server
import json

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == "/v1/traces" and self.headers["content-type"] == "application/json", self.headers
        assert self.headers["x-token"] == "t", self.headers
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        # OTLP's one departure from the JSON of protocol buffers: ids are hexadecimal digits.
        for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in "traceId", "spanId", "parentSpanId":
                if key in span:
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        request = json_format.ParseDict(document, ExportTraceServiceRequest())
        (resource,) = request.resource_spans
        service = {a.key: a.value.string_value for a in resource.resource.attributes}["service.name"]
        (scope,) = resource.scope_spans
        for span in scope.spans:
            assert len(span.trace_id) == 16 and len(span.span_id) == 8 and len(span.parent_span_id) in (0, 8)
            assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        print(service, *(span.name for span in scope.spans), sep=",", flush=True)
        answer = json_format.MessageToJson(ExportTraceServiceResponse()).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
    print(server.server_port, flush=True)
    server.handle_request()
