/** Differences between two texts, by lines. */

export interface DiffLine {
  readonly kind: "same" | "removed" | "added"
  readonly text: string
  /** Line numbers, from 1; null: not in that text. */
  readonly a: number | null
  readonly b: number | null
}

/** The search for the shortest difference ends here: beyond it, the rest counts as replaced. */
const MOST_STEPS = 2000

export function lineDiff(before: string, after: string): DiffLine[] {
  const [a, b] = [splitLines(before), splitLines(after)]
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start++
  let end = 0
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++
  const middle = shortest(a.slice(start, a.length - end), b.slice(start, b.length - end))
  const edits: Edit[] = [
    ...a.slice(0, start).map((text): Edit => ["same", text]),
    ...middle,
    ...a.slice(a.length - end).map((text): Edit => ["same", text]),
  ]
  return numbered(edits)
}

function splitLines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n")
}

function numbered(edits: readonly Edit[]): DiffLine[] {
  let [a, b] = [0, 0]
  return edits.map(([kind, text]) => ({
    kind,
    text,
    a: kind === "added" ? null : ++a,
    b: kind === "removed" ? null : ++b,
  }))
}

type Edit = readonly [DiffLine["kind"], string]

/** Myers, "An O(ND) difference algorithm". */
function shortest(a: readonly string[], b: readonly string[]): Edit[] {
  const replaced = (): Edit[] => [
    ...a.map((text): Edit => ["removed", text]),
    ...b.map((text): Edit => ["added", text]),
  ]
  if (a.length === 0 || b.length === 0) return replaced()
  const most = Math.min(a.length + b.length, MOST_STEPS)
  const furthest = new Map<number, number>([[1, 0]])
  const trace: Map<number, number>[] = []
  for (let d = 0; d <= most; d++) {
    trace.push(new Map(furthest))
    for (let k = -d; k <= d; k += 2) {
      const isDown = k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1))
      let x = isDown ? furthest.get(k + 1)! : furthest.get(k - 1)! + 1
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++
      furthest.set(k, x)
      if (x >= a.length && x - k >= b.length) return walkedBack(trace, a, b)
    }
  }
  return replaced()
}

function walkedBack(
  trace: readonly ReadonlyMap<number, number>[],
  a: readonly string[],
  b: readonly string[],
): Edit[] {
  const edits: Edit[] = []
  let [x, y] = [a.length, b.length]
  for (let d = trace.length - 1; d >= 0; d--) {
    const furthest = trace[d]!
    const k = x - y
    const isDown = k === -d || (k !== d && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1))
    const before = isDown ? k + 1 : k - 1
    const beforeX = furthest.get(before) ?? 0
    const beforeY = beforeX - before
    while (x > beforeX && y > beforeY) {
      edits.push(["same", a[--x]!])
      y--
    }
    if (d === 0) break
    if (isDown) edits.push(["added", b[--y]!])
    else edits.push(["removed", a[--x]!])
  }
  return edits.reverse()
}

/** Groups of lines around changes, with `around` unchanged lines; each gap is one entry with its length. */
export function hunks(lines: readonly DiffLine[], around = 3): (DiffLine | { readonly skipped: number })[] {
  const isNear = new Uint8Array(lines.length)
  for (const [n, { kind }] of lines.entries())
    if (kind !== "same") isNear.fill(1, Math.max(0, n - around), n + around + 1)
  const shown: (DiffLine | { skipped: number })[] = []
  for (const [n, line] of lines.entries()) {
    const last = shown.at(-1)
    if (isNear[n] === 1) shown.push(line)
    else if (last !== undefined && "skipped" in last) last.skipped++
    else shown.push({ skipped: 1 })
  }
  return shown
}
