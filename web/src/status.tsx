// The server's state: what `/metrics` says, looked at every two seconds.

import { useEffect, useState } from "preact/hooks";
import { request, type ModelInfo } from "./api";
import { Plot, short } from "./plot";
import { buckets, parse, quantile, total, type Sample } from "./prometheus";

const STEP = 2;
/** Five minutes. */
const KEPT = 150;
/** Percentiles are of what happened in this many looks. */
const WINDOW = 15;

interface Look {
  at: number;
  samples: Sample[];
}

export function Status({ models }: { models: ModelInfo[] }) {
  const [looks, setLooks] = useState<Look[]>([]);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    let over = false;
    let timer = 0;
    const look = async () => {
      try {
        const text = await (await request("metrics")).text();
        if (over) return;
        setLooks((l) => [...l, { at: performance.now() / 1000, samples: parse(text) }].slice(-KEPT - 1));
        setProblem("");
      } catch (e) {
        if (!over) setProblem((e as Error).message);
      }
      if (!over) timer = window.setTimeout(look, STEP * 1000);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, []);

  const gauge = (name: string) => looks.slice(1).map((l) => total(l.samples, name));
  const rate = (name: string) =>
    looks.slice(1).map((l, i) => {
      const before = looks[i]!;
      // A counter that fell is that of a server which was started anew.
      return Math.max(0, total(l.samples, name) - total(before.samples, name)) / Math.max(l.at - before.at, 1e-3);
    });
  const outcomes = (outcome: string) =>
    looks.slice(1).map((l, i) => {
      const before = looks[i]!;
      const of = (samples: Sample[]) => total(samples.filter((s) => s.labels.outcome === outcome), "leyden_slo_requests_total");
      return Math.max(0, of(l.samples) - of(before.samples)) / Math.max(l.at - before.at, 1e-3);
    });
  const percentile = (name: string, q: number) =>
    looks.slice(1).map((l, i) => {
      const before = looks[Math.max(0, i + 1 - WINDOW)]!;
      const value = quantile(buckets(before.samples, name), buckets(l.samples, name), q);
      return value === null ? null : value * 1000;
    });
  const hits = looks.slice(1).map((l, i) => {
    const before = looks[Math.max(0, i + 1 - WINDOW)]!;
    const of = (name: string) => total(l.samples, name) - total(before.samples, name);
    const asked = of("vllm:prefix_cache_queries_total");
    return asked > 0 ? (100 * of("vllm:prefix_cache_hits_total")) / asked : null;
  });
  const last = looks[looks.length - 1]?.samples ?? [];
  const has = (name: string) => last.some((s) => s.name === name);
  const promised = last.filter((s) => s.name === "leyden_slo_bound");
  const ttft = "vllm:time_to_first_token_seconds";
  const itl = "vllm:inter_token_latency_seconds";
  const percent = gauge("vllm:kv_cache_usage_perc").map((v) => v * 100);
  return (
    <main id="main" class="page" tabindex={-1}>
      <h1>Status</h1>
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      <div class="plots">
        <Plot title="Throughput" unit="tokens/s" step={STEP} lines={[{ name: "generated", values: rate("vllm:generation_tokens_total") }, { name: "prompts", values: rate("vllm:prompt_tokens_total") }]} />
        <Plot title="Requests" unit="" step={STEP} lines={[{ name: "running", values: gauge("vllm:num_requests_running") }, { name: "waiting", values: gauge("vllm:num_requests_waiting") }]} />
        <Plot title="Time to first token" unit="ms" step={STEP} lines={[{ name: "p50", values: percentile(ttft, 0.5) }, { name: "p95", values: percentile(ttft, 0.95) }]} />
        <Plot title="Between two tokens" unit="ms" step={STEP} lines={[{ name: "p50", values: percentile(itl, 0.5) }, { name: "p99", values: percentile(itl, 0.99) }]} />
        <Plot title="KV cache held" unit="%" step={STEP} most={100} lines={[{ name: "held", values: percent }]} />
        <Plot title="Prefix cache hits" unit="%" step={STEP} most={100} lines={[{ name: "hits", values: hits }]} />
        {has("process_resident_memory_bytes") && (
          <Plot title="Memory" unit="bytes" step={STEP} lines={[{ name: "resident", values: gauge("process_resident_memory_bytes") }]} />
        )}
        {has("leyden_slo_requests_total") && (
          <Plot title="Service level" unit="requests/s" step={STEP} lines={[{ name: "admitted", values: outcomes("admitted") }, { name: "refused", values: outcomes("refused") }]} />
        )}
        <Plot title="Connections" unit="" step={STEP} lines={[{ name: "open", values: gauge("leyden_http_connections") }]} />
      </div>
      <h2>Models</h2>
      <div class="table" tabindex={0} role="region" aria-label="Models">
        <table>
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Context</th>
              <th scope="col">Running</th>
              <th scope="col">Waiting</th>
              <th scope="col">Generated</th>
              <th scope="col">Prompts</th>
              <th scope="col">Answered</th>
              <th scope="col">Preempted</th>
            </tr>
          </thead>
          <tbody>
            {models.map((m) => {
              const of = last.filter((s) => s.labels.model_name === m.id);
              const cell = (name: string) => <td>{of.length ? short(total(of, name)) : "–"}</td>;
              return (
                <tr>
                  <th scope="row">{m.id}</th>
                  <td>{m.max_model_len ?? ""}</td>
                  {cell("vllm:num_requests_running")}
                  {cell("vllm:num_requests_waiting")}
                  {cell("vllm:generation_tokens_total")}
                  {cell("vllm:prompt_tokens_total")}
                  {cell("vllm:request_success_total")}
                  {cell("vllm:num_preemptions_total")}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {promised.length > 0 && (
        <>
          <h2>Service levels</h2>
          <div class="table" tabindex={0} role="region" aria-label="Service levels">
            <table>
              <thead>
                <tr>
                  <th scope="col">Model</th>
                  <th scope="col">Metric</th>
                  <th scope="col">Promise</th>
                  <th scope="col">Measured</th>
                  <th scope="col">Next request</th>
                  <th scope="col">Admitted</th>
                  <th scope="col">Delayed</th>
                  <th scope="col">Refused</th>
                </tr>
              </thead>
              <tbody>
                {promised.map(({ labels, value }) => {
                  const same = (s: Sample) => s.labels.model_name === labels.model_name && s.labels.engine === labels.engine;
                  const figure = (name: string) => last.find((s) => s.name === name && same(s) && s.labels.metric === labels.metric)?.value;
                  const count = (outcome: string) => last.find((s) => s.name === "leyden_slo_requests_total" && same(s) && s.labels.outcome === outcome)?.value ?? 0;
                  const unit = labels.metric!.startsWith("user_tps") ? "/s" : " s";
                  const cell = (v: number | undefined) => <td>{v === undefined ? "–" : v.toFixed(2) + unit}</td>;
                  return (
                    <tr>
                      <th scope="row">{labels.engine ? `${labels.model_name} (engine ${labels.engine})` : labels.model_name}</th>
                      <td>{labels.metric}</td>
                      {cell(value)}
                      {cell(figure("leyden_slo_measured"))}
                      {cell(figure("leyden_slo_estimate"))}
                      <td>{short(count("admitted"))}</td>
                      <td>{short(count("delayed"))}</td>
                      <td>{short(count("refused"))}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        </>
      )}
      <p class="hint">Percentiles are those of the last {WINDOW * STEP} seconds. The same figures for Prometheus: <a href="metrics">/metrics</a>.</p>
    </main>
  );
}
