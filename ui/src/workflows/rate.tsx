/** A share as a bar and a figure. */
export function Rate({ rate, kind, text }: { rate: number; kind: "failed" | "plain"; text: string }) {
  return (
    <span className="rate">
      <span className="rbar" aria-hidden="true">
        <i data-kind={kind} style={{ width: `${Math.min(100, rate * 100)}%` }} />
      </span>
      <span>{text}</span>
    </span>
  )
}

export function percent(rate: number): string {
  const value = rate * 100
  return value === 0 ? "0 %" : value < 10 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`
}
