/** A value, as a form made from its schema or as JSON; without a schema as JSON alone. */
import { useId, useState } from "react"
import type { Json } from "../../../src/core/index.ts"
import { Problems } from "./fields.tsx"
import type { FieldProblem, Schema } from "./schema.ts"
import { SchemaForm } from "./schema-form.tsx"

interface ValueEditorProps {
  readonly label: string
  /** null: none is declared. */
  readonly schema: Schema | null
  readonly value: Json | undefined
  /** `fault`: why what was entered is not a value; null: it is one. */
  readonly onChange: (value: Json | undefined, fault: string | null) => void
  readonly problems?: readonly FieldProblem[]
  /** What paths of problems begin with. */
  readonly name?: string
  readonly rows?: number
  readonly placeholder?: string
}

const none: readonly FieldProblem[] = []

export function ValueEditor(props: ValueEditorProps) {
  const { label, schema, value, onChange, problems = none, name = "input", rows = 4 } = props
  const id = useId()
  /** null: the form. */
  const [text, setText] = useState<string | null>(schema === null ? formatJson(value) : null)
  const [fault, setFault] = useState<string | null>(null)
  const change = (next: string) => {
    setText(next)
    const read = readJson(next)
    setFault(read.fault)
    onChange(read.fault === null ? read.value : value, read.fault)
  }
  const isForm = text === null && schema !== null
  return (
    <div className="ved">
      <div className="vedh">
        <span id={`${id}-label`} className="med">
          {label}
        </span>
        {schema !== null && (
          <fieldset className="seg" aria-label={`${label} as`}>
            <button
              type="button"
              aria-pressed={isForm}
              disabled={fault !== null}
              title={fault === null ? undefined : "Fix the JSON first"}
              onClick={() => setText(null)}
            >
              Form
            </button>
            <button type="button" aria-pressed={!isForm} onClick={() => setText(text ?? formatJson(value))}>
              JSON
            </button>
          </fieldset>
        )}
      </div>
      {isForm ? (
        <SchemaForm {...{ schema, value, problems, name }} onChange={next => onChange(next, null)} />
      ) : (
        <div className="sf">
          <textarea
            className="in"
            aria-labelledby={`${id}-label`}
            aria-describedby={`${id}-problem`}
            aria-invalid={fault !== null || problems.length > 0}
            rows={Math.min(24, Math.max(rows, (text ?? "").split("\n").length))}
            spellCheck={false}
            placeholder={props.placeholder ?? "JSON"}
            value={text ?? ""}
            onChange={event => change(event.target.value)}
          />
          <Problems
            id={`${id}-problem`}
            problems={[
              ...(fault === null ? [] : [fault]),
              ...problems.map(({ path, message }) => `${path}: ${message}`),
            ]}
          />
        </div>
      )}
    </div>
  )
}

function formatJson(value: Json | undefined): string {
  return value === undefined ? "" : JSON.stringify(value, null, 2)
}

function readJson(text: string): { readonly value: Json | undefined; readonly fault: string | null } {
  if (text.trim() === "") return { value: undefined, fault: null }
  try {
    return { value: JSON.parse(text) as Json, fault: null }
  } catch (error) {
    return { value: undefined, fault: `This is not JSON: ${(error as Error).message}` }
  }
}

/** Labels in one field. The browser checks `pattern` before it sends the form. */
export const labelsField = {
  placeholder: "team=shop, order=4711",
  pattern: "\\s*([^=,]+=[^,]*(,|$))*\\s*",
  title: "NAME=VALUE, separated by commas",
}

export function parseLabels(text: string): { readonly [name: string]: string } | undefined {
  const pairs = text.split(",").filter(pair => pair.trim() !== "")
  if (pairs.length === 0) return undefined
  return Object.fromEntries(
    pairs.map(pair => {
      const [name = "", ...value] = pair.split("=")
      return [name.trim(), value.join("=").trim()]
    }),
  )
}

export function labelsText(labels: { readonly [name: string]: string } = {}): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ")
}
