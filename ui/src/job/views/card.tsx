/** One node of the graph. All its texts are given, so that it is drawn again only if one of them has changed. */
import { memo } from "react"
import { type Card, itemStates } from "../../model/card.ts"
import { count } from "../../model/format.ts"
import type { Box } from "../../model/layout/layout.ts"
import { family, Icon, StateMark } from "../../shell/icons.tsx"

interface NodeCardProps extends Card {
  readonly node: number
  readonly id: string
  readonly box: Box
  readonly isSmall: boolean
  readonly isList: boolean
  readonly isChild: boolean
  readonly isSelected: boolean
  readonly isFaded: boolean
  readonly isTabStop: boolean
  readonly onSelect: (node: number) => void
}

export const NodeCard = memo(function NodeCard(props: NodeCardProps) {
  const { node, id, box, status, extra, isBad, left, right, items, isSmall, isList, isChild } = props
  const kind = isList ? " each" : isChild ? " child" : ""
  return (
    <button
      className={`node${kind}${isSmall ? " l2" : ""}${props.isFaded ? " faded" : ""}`}
      type="button"
      data-node={node}
      data-id={id}
      data-s={family(status)}
      aria-current={props.isSelected}
      tabIndex={props.isTabStop ? 0 : -1}
      style={{
        left: box.x,
        top: isSmall ? box.y + (box.h - 36) / 2 : box.y,
        width: box.w,
        height: isSmall ? 36 : box.h,
      }}
      onClick={() => props.onSelect(node)}
      title={id}
    >
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
    </button>
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
