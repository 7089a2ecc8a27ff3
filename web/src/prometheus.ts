// The text format of Prometheus, as far as `/metrics` uses it.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function parse(text: string): Sample[] {
  const out: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match || line.startsWith("#")) continue;
    const labels: Record<string, string> = {};
    for (const label of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label[1]!] = label[2]!.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    out.push({ name: match[1]!, labels, value: Number(match[3] === "+Inf" ? Infinity : match[3]) });
  }
  return out;
}

/** The sum of all samples of a name. */
export function total(samples: Sample[], name: string): number {
  return samples.reduce((sum, s) => (s.name === name ? sum + s.value : sum), 0);
}

/** Counts up to each bound of a histogram, of all models and engines. */
export function buckets(samples: Sample[], name: string): Map<number, number> {
  const out = new Map<number, number>();
  for (const s of samples) {
    if (s.name !== `${name}_bucket`) continue;
    const bound = s.labels.le === "+Inf" ? Infinity : Number(s.labels.le);
    out.set(bound, (out.get(bound) ?? 0) + s.value);
  }
  return out;
}

/** A quantile of what a histogram counted between two moments; within a bucket values are taken as spread evenly. */
export function quantile(before: Map<number, number>, after: Map<number, number>, q: number): number | null {
  const bounds = [...after.keys()].sort((a, b) => a - b);
  const counts = bounds.map((b) => after.get(b)! - (before.get(b) ?? 0));
  const all = counts[counts.length - 1] ?? 0;
  if (all <= 0) return null;
  const rank = q * all;
  for (let i = 0; i < bounds.length; i++) {
    if (counts[i]! < rank) continue;
    const low = i === 0 ? 0 : bounds[i - 1]!;
    const below = i === 0 ? 0 : counts[i - 1]!;
    const high = bounds[i]!;
    if (!Number.isFinite(high)) return low;
    return low + ((high - low) * (rank - below)) / Math.max(counts[i]! - below, 1e-9);
  }
  return null;
}
