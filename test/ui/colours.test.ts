/** Colours of states are told apart by people with and without colour blindness, and text has enough contrast, in both themes. */
import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"

const css = readFileSync(new URL("../../ui/src/styles/tokens.css", import.meta.url), "utf8")
const tokens = new Map(
  [...css.matchAll(/(--[\w-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/g)].map(
    ([, name, light, dark]) => [name!, { light: light!, dark: dark! }] as const,
  ),
)

type Vector = readonly [number, number, number]
type Theme = "light" | "dark"

const matrices = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  // Machado, Oliveira and Fernandes 2009, severity 1.
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
} as const satisfies Record<string, readonly Vector[]>

function linear(hex: string): Vector {
  const part = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  }
  return [part(1), part(3), part(5)]
}

function seen(matrix: readonly Vector[], [r, g, b]: Vector): Vector {
  const [x, y, z] = matrix.map(row => Math.min(1, Math.max(0, row[0] * r + row[1] * g + row[2] * b)))
  return [x!, y!, z!]
}

function contrast(a: string, b: string): number {
  const luminance = ([r, g, blue]: Vector) => 0.2126 * r + 0.7152 * g + 0.0722 * blue
  const [dark, light] = [luminance(linear(a)), luminance(linear(b))].sort((x, y) => x - y)
  return (light! + 0.05) / (dark! + 0.05)
}

function lab([r, g, b]: Vector): Vector {
  const f = (t: number) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116)
  const x = f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047)
  const y = f(0.2126729 * r + 0.7151522 * g + 0.072175 * b)
  const z = f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883)
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)]
}

/** CIEDE2000. */
function distance([l1, a1, b1]: Vector, [l2, a2, b2]: Vector): number {
  const radians = Math.PI / 180
  const meanChroma = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2
  const g = 0.5 * (1 - Math.sqrt(meanChroma ** 7 / (meanChroma ** 7 + 25 ** 7)))
  const [p1, p2] = [(1 + g) * a1, (1 + g) * a2]
  const [c1, c2] = [Math.hypot(p1, b1), Math.hypot(p2, b2)]
  const hue = (b: number, a: number) => (a === 0 && b === 0 ? 0 : (Math.atan2(b, a) / radians + 360) % 360)
  const [h1, h2] = [hue(b1, p1), hue(b2, p2)]
  const isGrey = c1 * c2 === 0
  let dh = isGrey ? 0 : h2 - h1
  if (dh > 180) dh -= 360
  if (dh < -180) dh += 360
  const dL = l2 - l1
  const dC = c2 - c1
  const dH = 2 * Math.sqrt(c1 * c2) * Math.sin((dh * radians) / 2)
  const [l, c] = [(l1 + l2) / 2, (c1 + c2) / 2]
  const sum = h1 + h2
  const h = isGrey ? sum : Math.abs(h1 - h2) <= 180 ? sum / 2 : sum < 360 ? (sum + 360) / 2 : (sum - 360) / 2
  const cosine = (angle: number) => Math.cos(angle * radians)
  const t =
    1 - 0.17 * cosine(h - 30) + 0.24 * cosine(2 * h) + 0.32 * cosine(3 * h + 6) - 0.2 * cosine(4 * h - 63)
  const sL = 1 + (0.015 * (l - 50) ** 2) / Math.sqrt(20 + (l - 50) ** 2)
  const sC = 1 + 0.045 * c
  const sH = 1 + 0.015 * c * t
  const turn = 2 * Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7))
  const rT = -Math.sin(60 * radians * Math.exp(-(((h - 275) / 25) ** 2))) * turn
  return Math.sqrt((dL / sL) ** 2 + (dC / sC) ** 2 + (dH / sH) ** 2 + rT * (dC / sC) * (dH / sH))
}

const names = (prefix: string) => [...tokens.keys()].filter(name => name.startsWith(prefix))
const grounds = ["--bg", "--surface", "--sunken", "--hover", "--float"]

describe.each(["light", "dark"] as const)("colours of the %s theme", (theme: Theme) => {
  const colour = (name: string) => tokens.get(name)![theme]

  it.each(Object.keys(matrices) as (keyof typeof matrices)[])(
    "tell every pair of states apart in %s vision",
    vision => {
      const states = names("--s-")
      expect(states.length).toBe(10)
      for (const [n, a] of states.entries())
        for (const b of states.slice(n + 1)) {
          const [x, y] = [a, b].map(name => lab(seen(matrices[vision], linear(colour(name)))))
          expect(distance(x!, y!), `${a} and ${b}`).toBeGreaterThanOrEqual(10)
        }
    },
  )

  it("have enough contrast as marks and as text", () => {
    const check = (texts: readonly string[], behind: readonly string[], least: number) => {
      for (const text of texts)
        for (const ground of behind)
          expect(contrast(colour(text), colour(ground)), `${text} on ${ground}`).toBeGreaterThanOrEqual(least)
    }
    check([...names("--s-"), "--fill-completed"], ["--bg", "--surface", "--sunken", "--float"], 3)
    check(
      ["--ink", "--ink-2", "--ink-3", "--accent-text", ...names("--t-").filter(name => tokens.has(name))],
      grounds,
      4.5,
    )
    for (const wash of names("--w-"))
      check(["--ink", "--ink-2", "--ink-3", wash.replace("--w-", "--t-")], [wash], 4.5)
    check(["--accent-ink"], ["--accent"], 4.5)
    check(names("--c-"), ["--surface", "--sunken"], 4.5)
  })
})

describe("marks of states", () => {
  it("have different shapes, so that colour is not needed", () => {
    const source = readFileSync(new URL("../../ui/src/shell/icons.tsx", import.meta.url), "utf8")
    const shapes = [...source.matchAll(/^ {2}([A-Z]+): `(.+)`,$/gm)].map(([, , shape]) => shape)
    expect(shapes.length).toBe(11)
    expect(new Set(shapes).size).toBe(shapes.length)
  })
})
