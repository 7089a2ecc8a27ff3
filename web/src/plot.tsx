// A line plot over time, drawn as SVG: no library, readable by a screen reader through its table of last values.

export interface Line {
  name: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  unit: string;
  lines: Line[];
  /** Seconds between two values. */
  step: number;
  /** The top of the axis, if it is fixed. */
  most?: number;
  format?: (value: number) => string;
}

const W = 320;
const H = 120;

export function Plot({ title, unit, lines, step, most, format = short }: Props) {
  const known = lines.flatMap((l) => l.values.filter((v): v is number => v !== null));
  const top = most ?? nice(Math.max(...known, 0));
  const n = Math.max(...lines.map((l) => l.values.length), 2);
  const x = (i: number) => (i / (n - 1)) * W;
  const y = (v: number) => H - (Math.min(v, top) / (top || 1)) * (H - 6) - 1;
  const label = lines.map((l) => `${l.name} ${format(lastOf(l.values) ?? NaN)} ${unit}`).join(", ");
  return (
    <figure class="plot">
      <figcaption>
        {title} <span class="dim">{unit}</span>
      </figcaption>
      <div class="frame">
        <svg viewBox={`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${label}`}>
          {[0.25, 0.5, 0.75, 1].map((p) => (
            <line x1="0" x2={W} y1={y(p * top)} y2={y(p * top)} class="rule" />
          ))}
          {lines.map((l, i) => (
            <path d={trace(l.values, x, y)} class={`line l${i}`} />
          ))}
        </svg>
        <span class="top-label">{format(top)}</span>
        <span class="time-label">{span((n - 1) * step)}</span>
      </div>
      <div class="legend">
        {lines.map((l, i) => (
          <span class={`key l${i}`}>
            {l.name} <b>{format(lastOf(l.values) ?? NaN)}</b>
          </span>
        ))}
      </div>
    </figure>
  );
}

function lastOf(values: (number | null)[]): number | null {
  return values.length ? values[values.length - 1]! : null;
}

/** A path with a gap wherever nothing was measured. */
function trace(values: (number | null)[], x: (i: number) => number, y: (v: number) => number): string {
  let out = "";
  let pen = false;
  values.forEach((v, i) => {
    if (v === null) pen = false;
    else {
      out += `${pen ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
    }
  });
  return out;
}

function span(seconds: number): string {
  return seconds < 90 ? `last ${seconds} s` : `last ${(seconds / 60).toFixed(1)} min`;
}

/** The next of 1, 2, 5 times a power of ten. */
function nice(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= value)!;
}

export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  return value >= 100 || value === Math.round(value) ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
