(* gep.lem3.2.text: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.2, after Lemma 3.2.
   "From Lemma 3.2, we can see the larger the number of anchor gradients and the dimension of the anchor subspace k, the smaller the residual gradients." *)
From kernel Require Import definitions lemmas.

(* the bound of Lemma 3.2: the eigenvalues l of the covariance in falling order, C = C_1 + C_2 >= 0, m anchors, |xi|^2 < T *)
Definition lemma_bound (l : vec) (C T delta : R) (m k : nat) : R :=
  total (skipn k l) + sqrt (INR k * C / INR m) + T * sqrt (2 * delta / INR m).
(* C_1 = E|xi|^4 - sum lambda_i^2, and C_2 likewise of the sample; here for gradients of norm 1, when the sample is in proportion: C_1 = C_2 = 1 - sum lambda_i^2 *)
Definition spread (l : vec) : R := 2 * (1 - square l).
Fixpoint falling (l : vec) : Prop := match l with a :: ((b :: _) as l') => b <= a /\ falling l' | _ => True end.
Definition printed : Prop := forall l T delta m k k', falling l -> Forall (fun a => 0 <= a) l -> total l = 1 -> 1 < T -> 0 < delta ->
  (0 < m)%nat -> (0 < k < k')%nat -> (k' <= length l)%nat ->
  lemma_bound l (spread l) T delta m k' <= lemma_bound l (spread l) T delta m k.

(* weights .6, .1, .1, .1, .1, ten anchors: from k = 1 to 4 the tail falls by .3, the middle term rises by sqrt .12 = .346 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim [6 / 10; 1 / 10; 1 / 10; 1 / 10; 1 / 10] 2 1 10%nat 1%nat 4%nat).
  assert (s : spread [6 / 10; 1 / 10; 1 / 10; 1 / 10; 1 / 10] = 12 / 10) by (unfold spread, square, dot; simpl; lra).
  unfold lemma_bound in claim. rewrite s in claim.
  assert (e1 : INR 1 * (12 / 10) / INR 10 = 12 / 100) by (simpl; field).
  assert (e4 : INR 4 * (12 / 10) / INR 10 = 2 * 2 * (12 / 100)) by (simpl; field).
  rewrite e1, e4, sqrt_mult, sqrt_square in claim by lra.
  assert (h : 3 / 10 < sqrt (12 / 100)).
  { rewrite <- (sqrt_square (3 / 10)) by lra. apply sqrt_lt_1_alt. lra. }
  cbn [skipn total fold_right] in claim. set (r := sqrt (12 / 100)) in *. set (q := 2 * sqrt (2 * 1 / INR 10)) in *.
  enough (1 / 10 + (1 / 10 + (1 / 10 + (1 / 10 + 0))) + r + q >= 1 / 10 + 0 + 2 * r + q) by lra.
  apply Rle_ge, claim; try lra; try lia; [simpl; repeat split; lra | repeat constructor; lra | simpl; lia].
Qed.
