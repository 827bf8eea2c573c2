(* The notions that the statements of this folder are made of: one definition each, the papers' symbol in its comment.
   Vectors are lists of real numbers; laws are finite, but for noise, of which only moments are used. *)
From Coq Require Export Reals List Lra Lia Permutation Bool Arith Psatz.
Export ListNotations.
Open Scope R_scope.

(* --- vectors ------------------------------------------------------------------------------------------------------- *)
Notation vec := (list R).
Definition total (l : list R) : R := fold_right Rplus 0 l.                   (* sum of the numbers of a list *)
Fixpoint zip (f : R -> R -> R) (u v : vec) : vec :=
  match u, v with a :: u', b :: v' => f a b :: zip f u' v' | _, _ => [] end.
Definition add := zip Rplus.                                                 (* u + v *)
Definition sub := zip Rminus.                                                (* u - v *)
Definition scale (c : R) (v : vec) : vec := map (Rmult c) v.                 (* c v *)
Definition opp (v : vec) : vec := map Ropp v.                                (* -v *)
Definition zero (d : nat) : vec := repeat 0 d.                               (* 0 in R^d *)
Definition sum (d : nat) (vs : list vec) : vec := fold_right add (zero d) vs. (* v_1 + ... + v_n in R^d *)
Definition dot (u v : vec) : R := total (zip Rmult u v).                     (* <u, v> *)
Definition square (v : vec) : R := dot v v.                                  (* |v|^2 *)
Definition norm (v : vec) : R := sqrt (square v).                            (* |v| *)
Definition entry (v : vec) (j : nat) : R := nth j v 0.                       (* v_j *)
Definition cosine (u v : vec) : R := dot u v / (norm u * norm v).            (* cos of the angle *)
Definition angle (u v : vec) : R := acos (cosine u v).                       (* the angle, in [0, pi] *)
Definition clip (C : R) (v : vec) : vec := scale (Rmin 1 (C / norm v)) v.    (* clip(v) = v min(1, C / |v|) *)

(* --- means --------------------------------------------------------------------------------------------------------- *)
Definition avg {A : Type} (l : list A) (f : A -> R) : R := total (map f l) / INR (length l).    (* mean of f over a list *)
Definition average (d : nat) (vs : list vec) : vec := scale (/ INR (length vs)) (sum d vs).     (* (1/B) sum of v_i *)

(* --- masks: m in {0,1}^d -------------------------------------------------------------------------------------------- *)
Fixpoint mask (m : list bool) (v : vec) : vec :=                             (* m (.) v, entry by entry *)
  match m, v with b :: m', a :: v' => (if b then a else 0) :: mask m' v' | _, _ => [] end.
Fixpoint masks (d k : nat) : list (list bool) :=                             (* all masks of d entries with k ones, once each *)
  match d, k with
  | O, O => [[]] | O, S _ => []
  | S d', O => map (cons false) (masks d' O)
  | S d', S k' => map (cons true) (masks d' k') ++ map (cons false) (masks d' (S k'))
  end.                                                                       (* E_m f = avg (masks d k) f for a uniform mask *)
Definition share (d k : nat) : R := INR k / INR d.                           (* x = 1 - r, the share of entries kept *)
Definition ones (m : list bool) : nat := count_occ bool_dec m true.
Fixpoint distance (a b : list bool) : nat :=                                 (* h(I, J): places in which two masks differ *)
  match a, b with x :: a', y :: b' => ((if Bool.eqb x y then 0 else 1) + distance a' b')%nat | _, _ => O end.

(* --- finite laws: chances and values ---------------------------------------------------------------------------------- *)
Definition law (A : Type) := list (R * A).
Definition lawful {A : Type} (p : law A) : Prop := Forall (fun a => 0 <= fst a) p /\ total (map fst p) = 1.
Definition E {A : Type} (p : law A) (f : A -> R) : R := total (map (fun a => fst a * f (snd a)) p).
Definition below (c x : R) : R := if Rlt_dec x c then 1 else 0.              (* 1 where x < c, else 0 *)
Definition chance (p : law vec) (c : R) (f : vec -> vec) : R := E p (fun v => below c (norm (f v))).   (* P(|f(v)| < c) *)
Definition mirrored (a : R * vec) : R * vec := (fst a, opp (snd a)).
Definition symmetric (p : law vec) : Prop := Permutation (map mirrored p) p. (* p(v) = p(-v) *)
Definition in_space (d : nat) (p : law vec) : Prop := Forall (fun a => length (snd a) = d) p.
Definition mean_vector (d : nat) (p : law vec) (f : vec -> vec) : vec :=     (* E f(v) in R^d *)
  sum d (map (fun a => scale (fst a) (f (snd a))) p).

(* --- expectations of any law, the Gaussian among them: what has a mean, and the mean ----------------------------------- *)
Record expectation (O : Type) := {
  has : (O -> R) -> Prop;
  ex : (O -> R) -> R;
  has_constant : forall c, has (fun _ => c);
  ex_constant : forall c, ex (fun _ => c) = c;
  has_linear : forall a b f g, has f -> has g -> has (fun o => a * f o + b * g o);
  ex_linear : forall a b f g, has f -> has g -> ex (fun o => a * f o + b * g o) = a * ex f + b * ex g;
  ex_positive : forall f, has f -> (forall o, 0 <= f o) -> 0 <= ex f }.
Arguments has {O}. Arguments ex {O}. Arguments has_constant {O}. Arguments ex_constant {O}.
Arguments has_linear {O}. Arguments ex_linear {O}. Arguments ex_positive {O}.

(* n_0, n_1, ...: mean 0, variance 1, uncorrelated, as independent N(0, 1) variables are, or independent signs.
   noise.v proves that such a sequence exists. *)
Definition unit_noise {O : Type} (e : expectation O) (n : nat -> O -> R) : Prop :=
  (forall i, has e (n i)) /\ (forall i, ex e (n i) = 0) /\
  (forall i j, has e (fun o => n i o * n j o)) /\
  (forall i j, ex e (fun o => n i o * n j o) = if Nat.eqb i j then 1 else 0).

(* the noise of a step in R^d: (n_0, ..., n_{d-1}), as N(0, I_d) is *)
Definition noise {O : Type} (n : nat -> O -> R) (d : nat) (o : O) : vec := map (fun j => n j o) (seq 0 d).
(* of step t of a run, whose steps take one block of d draws each *)
Definition step_noise {O : Type} (n : nat -> O -> R) (d t : nat) (o : O) : vec := map (fun j => n j o) (seq (t * d) d).

(* --- smooth functions on R^d ------------------------------------------------------------------------------------------ *)
Definition gradient_of (d : nat) (L : vec -> R) (g : vec -> vec) : Prop :=   (* g is the gradient of L, along every line *)
  (forall u, length u = d -> length (g u) = d) /\
  forall u v, length u = d -> length v = d ->
    derivable_pt_lim (fun t => L (add u (scale t v))) 0 (dot (g u) v).
Definition smooth (d : nat) (G : R) (L : vec -> R) (g : vec -> vec) : Prop := (* G-smooth: the gradient is G-Lipschitz *)
  gradient_of d L g /\
  forall u v, length u = d -> length v = d -> norm (sub (g u) (g v)) <= G * norm (sub u v).
Definition least (d : nat) (L : vec -> R) (m : R) : Prop :=                  (* m = min L *)
  (exists u, length u = d /\ L u = m) /\ forall u, length u = d -> m <= L u.
