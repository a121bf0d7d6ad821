/** Shares of an alias in whole percents, which always add up to 100. */

export type Shares = ReadonlyMap<number, number>

export function computeShares(weights: { readonly [version: string]: number }): Shares {
  const entries = Object.entries(weights).map(([version, weight]) => [Number(version), weight] as const)
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0)
  return rounded(entries.map(([version, weight]) => [version, total === 0 ? 0 : (weight * 100) / total]))
}

/** One version gets this share; the others keep their proportions. */
export function withShare(shares: Shares, version: number, share: number): Shares {
  const others = [...shares].filter(([other]) => other !== version)
  const before = others.reduce((sum, [, one]) => sum + one, 0)
  const left = 100 - share
  return rounded(
    [...shares].map(([other, one]) => [
      other,
      other === version ? share : before === 0 ? left / others.length : (one * left) / before,
    ]),
    version,
  )
}

/** The version with the largest share takes what rounding leaves; never the one that was set. */
function rounded(exact: readonly (readonly [number, number])[], set?: number): Shares {
  const shares = new Map(exact.map(([version, share]) => [version, Math.round(share)]))
  const rest = 100 - [...shares.values()].reduce((sum, share) => sum + share, 0)
  const [largest] = [...shares].filter(([version]) => version !== set).sort((a, b) => b[1] - a[1])
  if (largest !== undefined) shares.set(largest[0], largest[1] + rest)
  return shares
}

export function sharesText(shares: Shares): string {
  const used = [...shares].filter(([, share]) => share > 0)
  return used.length === 1
    ? `v${used[0]![0]} alone`
    : used.map(([version, share]) => `v${version} ${share} %`).join(", ")
}

interface Outcome {
  readonly failed: number
  readonly ended: number
}

/** One-sided z-test of two proportions, at 0.1 %. With fewer than 10 ended jobs there is no result. */
export function failsMore(a: Outcome, b: Outcome): boolean {
  if (a.ended < 10 || b.ended < 10) return false
  const pooled = (a.failed + b.failed) / (a.ended + b.ended)
  const deviation = Math.sqrt(pooled * (1 - pooled) * (1 / a.ended + 1 / b.ended))
  return deviation > 0 && (a.failed / a.ended - b.failed / b.ended) / deviation > 3.09
}
