/** Icons and the marks of states, as symbols that are drawn once and used by reference. */
import type { JobStatus, NodeStatus } from "../../../src/core/index.ts"

export type Status = JobStatus | NodeStatus

/**
 * 16 × 16; `currentColor` is the colour of the state, `--hole` the ground behind the mark. The shape alone tells the state:
 * dashed ring, ring with dots, disc with a triangle, square with bars, disc with a tick, octagon with a cross, chevrons.
 */
const marks: { readonly [status in Exclude<Status, "PROCESSING" | "DELETED">]: string } = {
  PENDING: `<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.2 2.12"/>`,
  QUEUED: `<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M5 8h.01M8 8h.01M11 8h.01" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/>`,
  DISPATCHING: `<circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M5.4 8h5M8.4 5.8 10.6 8l-2.2 2.2" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>`,
  RUNNING: `<circle cx="8" cy="8" r="6.5" fill="currentColor"/><path d="M6.6 5.3v5.4L10.9 8z" fill="var(--hole)"/>`,
  WAITING: `<rect x="2" y="2" width="12" height="12" rx="3" fill="currentColor"/><path d="M6.3 5.4v5.2M9.7 5.4v5.2" stroke="var(--hole)" stroke-width="1.8" stroke-linecap="round"/>`,
  COMPLETED: `<circle cx="8" cy="8" r="6.5" fill="currentColor"/><path d="m5.2 8.2 1.9 1.9 3.7-4" fill="none" stroke="var(--hole)" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"/>`,
  FAILED: `<path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor"/><path d="m5.9 5.9 4.2 4.2m0-4.2-4.2 4.2" stroke="var(--hole)" stroke-width="1.6" stroke-linecap="round"/>`,
  SKIPPED: `<path d="M3 4.2 6.8 8 3 11.8M8.2 4.2 12 8l-3.8 3.8" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/>`,
  CANCELLED: `<circle cx="8" cy="8" r="5.7" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="m4.2 11.8 7.6-7.6" stroke="currentColor" stroke-width="1.6"/>`,
  PREVIEW: `<path d="M1 8c1.7-3 4-4.6 7-4.6S13.3 5 15 8c-1.7 3-4 4.6-7 4.6S2.7 11 1 8z" fill="currentColor"/><circle cx="8" cy="8" r="2.2" fill="var(--hole)"/>`,
  EXPIRED: `<path d="M8 1.5 14.5 8 8 14.5 1.5 8z" fill="currentColor"/><path d="M8 4.8V8.2l2 1.3" fill="none" stroke="var(--hole)" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>`,
}

const icons = {
  now: `<path d="M8 2v2M8 12v2M2 8h2M12 8h2"/><circle cx="8" cy="8" r="3"/>`,
  jobs: `<path d="M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.01M2.5 8h.01M2.5 12h.01"/>`,
  workflow: `<rect x="1.8" y="5.8" width="4.4" height="4.4" rx="1"/><rect x="9.8" y="1.8" width="4.4" height="4.4" rx="1"/><rect x="9.8" y="9.8" width="4.4" height="4.4" rx="1"/><path d="M6.2 8h1.6V4h2M7.8 8v4h2"/>`,
  pipeline: `<path d="M1.5 5h3l7 6h3M1.5 11h3l2-1.7M9.5 6.7l2-1.7h3"/>`,
  capacity: `<path d="M2.5 13.5v-4M6.2 13.5v-8M9.8 13.5v-6M13.5 13.5v-11"/>`,
  schedule: `<rect x="2" y="3" width="12" height="11" rx="2"/><path d="M2 6.5h12M5.3 1.5v3M10.7 1.5v3"/>`,
  search: `<circle cx="7" cy="7" r="4.5"/><path d="m10.4 10.4 3.4 3.4"/>`,
  cancel: `<circle cx="8" cy="8" r="6"/><path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4"/>`,
  retry: `<path d="M13.5 8A5.5 5.5 0 1 1 11.7 4M13.5 1.8v3h-3"/>`,
  download: `<path d="M8 2v8M4.8 7 8 10.2 11.2 7M2.5 13.5h11"/>`,
  close: `<path d="m4 4 8 8m0-8-8 8"/>`,
  plus: `<path d="M8 3v10M3 8h10"/>`,
  minus: `<path d="M3 8h10"/>`,
  fit: `<path d="M2 5.5V2h3.5M10.5 2H14v3.5M14 10.5V14h-3.5M5.5 14H2v-3.5"/>`,
  right: `<path d="m6 3.5 4.5 4.5L6 12.5"/>`,
  down: `<path d="M3.5 6 8 10.5 12.5 6"/>`,
  play: `<path d="M4.5 2.8v10.4L13 8z" fill="currentColor" stroke="none"/>`,
  pause: `<path d="M5 3v10M11 3v10" stroke-width="2.2"/>`,
  prev: `<path d="M12 3.5 6 8l6 4.5zM4 3.5v9" fill="currentColor"/>`,
  next: `<path d="m4 3.5 6 4.5-6 4.5zM12 3.5v9" fill="currentColor"/>`,
  copy: `<rect x="5.5" y="5.5" width="8" height="8" rx="1.5"/><path d="M3.5 10.5h-.5a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1h6.5a1 1 0 0 1 1 1v.5"/>`,
  link: `<path d="M6.5 9.5 9.5 6.5M7 4.5l1.6-1.6a3 3 0 0 1 4.5 4.3l-1.6 1.6M9 11.5l-1.6 1.6a3 3 0 0 1-4.5-4.3l1.6-1.6"/>`,
  child: `<rect x="1.8" y="1.8" width="8" height="8" rx="1.5"/><path d="M12.2 6.2h1a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-1"/>`,
  signal: `<path d="M8 2.2 13.8 8 8 13.8 2.2 8z"/>`,
  slot: `<rect x="1.8" y="4" width="3.2" height="8" rx="1"/><rect x="6.4" y="4" width="3.2" height="8" rx="1"/><rect x="11" y="4" width="3.2" height="8" rx="1" stroke-dasharray="1.6 1.4"/>`,
  clock: `<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 1.5"/>`,
  filter: `<path d="M2 3.5h12M4.5 8h7M7 12.5h2"/>`,
  takeover: `<path d="M2.5 5.5h10M9.8 2.8l2.7 2.7-2.7 2.7M13.5 10.5h-10M6.2 7.8l-2.7 2.7 2.7 2.7"/>`,
  octagon: `<path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor" stroke="none"/>`,
  diamond: `<path d="M8 1.5 14.5 8 8 14.5 1.5 8z" fill="currentColor" stroke="none"/>`,
  sun: `<circle cx="8" cy="8" r="2.8"/><path d="M8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9"/>`,
  help: `<circle cx="8" cy="8" r="6"/><path d="M6.3 6.2c.2-1 .9-1.5 1.8-1.5 1 0 1.7.6 1.7 1.5 0 1.3-1.7 1.4-1.7 2.6M8.050 11.2h.01"/>`,
  person: `<circle cx="8" cy="5" r="2.5"/><path d="M3 14c.4-3 2.3-4.5 5-4.5s4.6 1.5 5 4.5"/>`,
  info: `<circle cx="8" cy="8" r="6"/><path d="M8 7.5v3.5M8 5h.01"/>`,
  fork: `<circle cx="4" cy="3.5" r="1.6"/><circle cx="4" cy="12.5" r="1.6"/><circle cx="12" cy="3.5" r="1.6"/><path d="M4 5.1v5.8M12 5.1c0 3.4-8 1.4-8 4.4"/>`,
  pencil: `<path d="m3 13 .7-2.8 7-7a1.5 1.5 0 0 1 2.1 2.1l-7 7zM9.5 4.4l2.1 2.1"/>`,
  pin: `<path d="M6 2h4M6.5 2v4L4.5 9h7l-2-3V2M8 9v5"/>`,
  warn: `<path d="M8 2.2 14.3 13H1.700zM8 6.500v3M8 11.300h.01"/>`,
  key: `<circle cx="5" cy="11" r="2.6"/><path d="m7 9 5.5-5.500M10.5 5.500l2 2"/>`,
  back: `<path d="M10 3.5 5.5 8l4.5 4.5"/>`,
}

export type IconName = keyof typeof icons

const symbol = (id: string, content: string) => `<symbol id="${id}" viewBox="0 0 16 16">${content}</symbol>`

/** Beside the root of the page: constant text. */
export function drawSymbols(): void {
  const sprite = document.createElement("div")
  sprite.hidden = true
  sprite.innerHTML = `<svg>${[
    ...Object.entries(marks).map(([name, content]) => symbol(`m-${name}`, content)),
    ...Object.entries(icons).map(([name, content]) => symbol(`i-${name}`, content)),
  ].join("")}</svg>`
  document.body.append(sprite)
}

/** The colours of a state: that of PROCESSING is RUNNING's, that of DISPATCHING QUEUED's. */
export function family(status: Status): string {
  if (status === "PROCESSING") return "running"
  if (status === "DISPATCHING") return "queued"
  return status === "DELETED" ? "cancelled" : status.toLowerCase()
}

export function Icon({ name, small = false }: { name: IconName; small?: boolean }) {
  return (
    <svg className={small ? "i s" : "i"} aria-hidden="true">
      <use href={`#i-${name}`} />
    </svg>
  )
}

export function StateMark({ status, small = false }: { status: Status; small?: boolean }) {
  const shape = status === "PROCESSING" ? "RUNNING" : status === "DELETED" ? "CANCELLED" : status
  return (
    <svg className={small ? "m s" : "m"} data-s={family(status)} aria-hidden="true">
      <use href={`#m-${shape}`} />
    </svg>
  )
}

export function Pill({ status }: { status: Status }) {
  return (
    <span className="pill" data-s={family(status)}>
      <StateMark status={status} />
      {status}
    </span>
  )
}

export function Brand({ size = 20 }: { size?: number }) {
  return (
    <svg viewBox="0 0 20 20" width={size} height={size} aria-hidden="true">
      <circle cx="10" cy="10" r="8.5" fill="var(--ink)" />
      <path d="M10 1.5a8.5 8.5 0 0 1 0 17c3-2 4.5-5 4.5-8.5S13 3.5 10 1.5z" fill="var(--bg)" />
      <circle cx="10" cy="10" r="8.5" fill="none" stroke="var(--ink)" strokeWidth="1.2" />
    </svg>
  )
}
