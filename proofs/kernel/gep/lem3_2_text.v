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
