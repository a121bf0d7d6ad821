/** YAML as coloured text. */
import { Fragment, type ReactNode } from "react"

/** Text of one line, with spans for keys, quoted texts, numbers, comments and templates. */
export function colouredLine(line: string): ReactNode {
  const [, indent = "", key, colon = "", rest = ""] =
    /^(\s*(?:- +)*)((?:"(?:[^"\\]|\\.)*"|[^\s#:'"{}[\]-][^:#{}[\]]*))?(:(?=\s|$))?(.*)$/.exec(line) ?? []
  if (colon === "") return colouredValue(line)
  return (
    <>
      {indent}
      <span className="c-k">{key}</span>
      <span className="c-p">{colon}</span>
      {colouredValue(rest)}
    </>
  )
}

const parts =
  /(\{\{.*?\}\})|(^\s*#.*|\s#.*)|("(?:[^"\\]|\\.)*"?|'[^']*'?)|((?<=^|[\s[,])-?\d+(?:\.\d+)?(?=$|[\s,\]]))/g

function colouredValue(text: string): ReactNode {
  const found: ReactNode[] = []
  let end = 0
  for (const match of text.matchAll(parts)) {
    const [whole, template, comment, quoted] = match
    found.push(text.slice(end, match.index))
    const name = template ? "c-t" : comment ? "c-p" : quoted ? "c-s" : "c-n"
    found.push(
      <span key={match.index} className={name}>
        {quoted ? withTemplates(quoted) : whole}
      </span>,
    )
    end = match.index + whole.length
  }
  found.push(text.slice(end))
  return <>{found}</>
}

function withTemplates(text: string): ReactNode[] {
  return text.split(/(\{\{.*?\}\})/).map((part, n) =>
    n % 2 === 0 ? (
      part
    ) : (
      <span key={`${n} ${part}`} className="c-t">
        {part}
      </span>
    ),
  )
}

const MOST_LINES = 400

export function YamlText({ text, label }: { text: string; label: string }) {
  const lines = text.trimEnd().split("\n")
  return (
    <div className="ytext" role="region" aria-label={label} tabIndex={0}>
      <pre className="code">
        {lines.slice(0, MOST_LINES).map((line, n) => (
          <Fragment key={`${n} ${line}`}>
            {colouredLine(line)}
            {"\n"}
          </Fragment>
        ))}
      </pre>
      {lines.length > MOST_LINES && (
        <p className="small dim">{lines.length - MOST_LINES} more lines are not shown.</p>
      )}
    </div>
  )
}
