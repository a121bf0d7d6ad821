/** One node of the graph. All its texts are given, so that it is drawn again only if one of them has changed. */
import { memo } from "react"
import { type Card, itemStates } from "../../model/card.ts"
import { count } from "../../model/format.ts"
import { family, Icon, StateMark } from "../../shell/icons.tsx"
import { CardFrame, type CardPlace } from "./graph-view.tsx"

interface NodeCardProps extends Card, CardPlace {}

export const NodeCard = memo(function NodeCard(props: NodeCardProps) {
  const { id, status, extra, isBad, left, right, items, isSmall, isChild } = props
  return (
    <CardFrame place={props} data={{ "data-s": family(status) }}>
      <span className="h">
        <StateMark status={status} />
        <b>{id}</b>
        <span className="sr">, {status.toLowerCase()}, </span>
        {!isSmall && extra !== "" && <span className={isBad ? "x t-failed" : "x"}>{extra}</span>}
        {!isSmall && isChild && <Icon name="child" small />}
      </span>
      {!isSmall && items !== "" && <Segments items={items} />}
      {!isSmall && (
        <span className={isBad ? "d t-failed" : "d"}>
          <span>{left}</span>
          {right !== "" && <span className="r">{right}</span>}
        </span>
      )}
    </CardFrame>
  )
})

/** The share of each state among the items, and their numbers. */
export function Segments({ items, isBare = false }: { items: string; isBare?: boolean }) {
  const counts = items.split(",").map(Number)
  const shown = itemStates.map((state, n) => [state, counts[n]!] as const).filter(([, number]) => number > 0)
  const told = shown.filter(([state]) => state !== "pending").slice(0, 3)
  return (
    <>
      <span className="segs">
        {shown.map(([state, number]) => (
          <i key={state} data-s={state} style={{ flexGrow: number }} />
        ))}
      </span>
      {!isBare && (
        <span className="cnt">
          {told.map(([state, number]) => (
            <span key={state}>
              <StateMark status={state.toUpperCase() as never} />
              {count(number)}
            </span>
          ))}
        </span>
      )}
    </>
  )
}
