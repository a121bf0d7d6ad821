/** The parsed tree. Immutable; `depth` is the height of the subtree, bounded by the parser. */
import type { Json } from "../../core/json.ts"
import type { Operation } from "../run/operation.ts"

interface Base {
  /** Offset in the source. */
  readonly at: number
  readonly depth: number
}

export type BinaryOperator = "+" | "-" | "*" | "/" | "//" | "%" | "**"
export type Comparison = "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in"

export interface Constant extends Base {
  readonly kind: "constant"
  readonly value: Json
}
export interface Name extends Base {
  readonly kind: "name"
  readonly name: string
}
/** `object.key` */
export interface Member extends Base {
  readonly kind: "member"
  readonly object: Expression
  readonly key: string
}
/** `object[key]` */
export interface Item extends Base {
  readonly kind: "item"
  readonly object: Expression
  readonly key: Expression
}
export interface Slice extends Base {
  readonly kind: "slice"
  readonly object: Expression
  readonly bounds: readonly (Expression | null)[]
}
export interface List extends Base {
  readonly kind: "list"
  readonly items: readonly Expression[]
}
export interface Mapping extends Base {
  readonly kind: "mapping"
  readonly entries: readonly (readonly [Expression, Expression])[]
}
export interface Unary extends Base {
  readonly kind: "unary"
  readonly operator: "not" | "-" | "+"
  readonly operand: Expression
}
export interface Binary extends Base {
  readonly kind: "binary"
  readonly operator: BinaryOperator
  readonly left: Expression
  readonly right: Expression
}
export interface Logic extends Base {
  readonly kind: "logic"
  readonly operator: "and" | "or"
  readonly left: Expression
  readonly right: Expression
}
export interface Compare extends Base {
  readonly kind: "compare"
  readonly first: Expression
  readonly rest: readonly { readonly operator: Comparison; readonly operand: Expression }[]
}
export interface Concat extends Base {
  readonly kind: "concat"
  readonly parts: readonly Expression[]
}
export interface Conditional extends Base {
  readonly kind: "conditional"
  readonly test: Expression
  readonly consequent: Expression
  readonly otherwise: Expression | null
}
/** A filter, test, function or method applied; arguments are bound to parameters when parsed. */
export interface Apply extends Base {
  readonly kind: "apply"
  readonly operation: Operation
  /** Its name in messages: `filter "upper"`. */
  readonly title: string
  readonly input: Expression
  readonly arguments: readonly (Expression | null)[]
  /** Keyword arguments of an operation that accepts any. */
  readonly named: readonly (readonly [string, Expression])[]
  /** `is not`. */
  readonly negated: boolean
}

export type Expression =
  | Constant
  | Name
  | Member
  | Item
  | Slice
  | List
  | Mapping
  | Unary
  | Binary
  | Logic
  | Compare
  | Concat
  | Conditional
  | Apply

/** The target of `for` and `set`. */
export type Target =
  | { readonly kind: "one"; readonly name: string }
  | { readonly kind: "field"; readonly name: string; readonly field: string; readonly at: number }
  | { readonly kind: "many"; readonly targets: readonly Target[] }

export interface Text extends Base {
  readonly kind: "text"
  readonly text: string
}
export interface Output extends Base {
  readonly kind: "output"
  readonly expression: Expression
}
export interface If extends Base {
  readonly kind: "if"
  readonly branches: readonly { readonly test: Expression; readonly body: Body }[]
  readonly otherwise: Body | null
}
export interface For extends Base {
  readonly kind: "for"
  readonly target: Target
  readonly sequence: Expression
  readonly filter: Expression | null
  readonly body: Body
  readonly otherwise: Body | null
}
export interface SetValue extends Base {
  readonly kind: "set"
  readonly target: Target
  readonly value: Expression
}
/** `{% set name | filter %}…{% endset %}`: `value` reads the text of the body as the constant it is given. */
export interface SetBlock extends Base {
  readonly kind: "set-block"
  readonly target: Target
  readonly body: Body
  readonly filters: readonly Apply[]
}

export type Statement = Text | Output | If | For | SetValue | SetBlock
export type Body = readonly Statement[]
