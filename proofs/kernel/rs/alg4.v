(* rs.alg4: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix I, Algorithm 4, line 9 (v_{t+1} = mu v_t + g_t, w_{t+1} = w_t - gamma v_{t+1}).
   "As DP is robust to post-processing, such ranked sparsification does not consume the privacy budget." Line 8 makes the noisy gradient; line 9 as printed takes the other one. *)
From kernel Require Import definitions lemmas.

(* one step on all data from w with velocity 0 and the mask m; n is the noise of line 8, which line 9 does not use *)
Definition step (d : nat) (B C gamma : R) (m : list bool) (grads : list vec) (w n : vec) : vec :=
  sub w (scale gamma (scale (/ B) (sum d (map (fun g => clip C (mask m g)) grads)))).
(* (eps, delta)-DP, for one example added or removed: for every set s of outcomes and any expectation e over the noise.
   An example x has the gradient grad x w. *)
Definition indicator (s : vec -> bool) (v : vec) : R := if s v then 1 else 0.
Definition private {X O} (e : expectation O) (n : O -> vec) d B C gamma m (grad : X -> vec -> vec) (w : vec) (eps delta : R) : Prop :=
  forall x xs s, let P data := ex e (fun o => indicator s (step d B C gamma m (map (fun x => grad x w) data) w (n o))) in
  P (x :: xs) <= exp eps * P xs + delta /\ P xs <= exp eps * P (x :: xs) + delta.
(* whatever the noise is, the step is (eps, delta)-private for some eps and some delta < 1 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : O -> vec),
  forall d B C gamma m w, 0 < B -> 0 < C -> 0 < gamma -> length m = d -> length w = d ->
  forall (X : Type) (grad : X -> vec -> vec), (forall x w, length w = d -> length (grad x w) = d) ->
  exists eps delta, delta < 1 /\ private e n d B C gamma m grad w eps delta.

(* line 9 with the gradient of line 8: what is (eps, delta)-private is still so after any function of it and of outcomes that do not depend on the data, as the
   step is, and the ranking of the next mask. (Composition over the steps is not stated here.) *)
Definition release {X O} (d : nat) (B C : R) (m : list bool) (grad : X -> vec -> vec) (w : vec) (n : O -> vec) (data : list X) (o : O) : vec :=
  scale (/ B) (add (sum d (map (fun x => clip C (mask m (grad x w))) data)) (mask m (n o))).
Definition private_of {X O Z} (e : expectation O) (out : list X -> O -> Z) (eps delta : R) : Prop :=
  forall x xs (s : Z -> bool), let P data := ex e (fun o => if s (out data o) then 1 else 0) in
  P (x :: xs) <= exp eps * P xs + delta /\ P xs <= exp eps * P (x :: xs) + delta.
Definition correction : Prop := forall (X O : Type) (e : expectation O) (n : O -> vec) d B C m (grad : X -> vec -> vec) w eps delta,
  private_of e (release d B C m grad w n) eps delta ->
  (forall gamma, private_of e (fun data o => sub w (scale gamma (release d B C m grad w n data o))) eps delta) /\
  forall (Y Z : Type) (y : Y) (f : Y -> vec -> Z), private_of e (fun data o => f y (release d B C m grad w n data o)) eps delta.

(* d = 1, C = 4, from 0 on the sum of (w - x)^2 / 2, B = 2, gamma = 1/10, data 1 and -1/2: the step leads to 1/40, with a third example 3 to 7/40 *)
Definition gradient (x : R) (w : vec) : vec := map (fun a => a - x) w.
Lemma short v : norm v <= 4 -> clip 4 v = v. Proof. apply clip_short. Qed.
Lemma small a : -4 <= a <= 4 -> clip 4 [a] = [a].
Proof. intro. apply short, norm_le; unfold square, dot; simpl; nra. Qed.
Lemma two n : step 1 2 4 (1 / 10) [true] [gradient 1 [0]; gradient (- (1 / 2)) [0]] [0] n = [1 / 40].
Proof. unfold step, gradient. cbn [map mask]. rewrite !small by lra. cbv [sum map fold_right add zip scale zero repeat sub]. f_equal. field. Qed.
Lemma three n : step 1 2 4 (1 / 10) [true] [gradient 3 [0]; gradient 1 [0]; gradient (- (1 / 2)) [0]] [0] n = [7 / 40].
Proof. unfold step, gradient. cbn [map mask]. rewrite !small by lra. cbv [sum map fold_right add zip scale zero repeat sub]. f_equal. field. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & claim).
  destruct (claim 1%nat 2 4 (1 / 10) [true] [0] ltac:(lra) ltac:(lra) ltac:(lra) eq_refl eq_refl R gradient) as (eps & delta & d1 & h).
  { intros x w l. unfold gradient. rewrite map_length. exact l. }
  set (s := fun v : vec => match v with a :: _ => if Req_EM_T a (7 / 40) then true else false | [] => false end).
  destruct (h 3 [1; - (1 / 2)] s) as [a _]. cbn [map] in a. rewrite (ex_ext e _ (fun _ => 1)), ex_constant in a.
  - rewrite (ex_ext e _ (fun _ => 0)), ex_constant in a; [lra|]. intro o. rewrite two. unfold indicator, s.
    destruct (Req_EM_T (1 / 40) (7 / 40)); lra.
  - intro o. rewrite three. unfold indicator, s. destruct (Req_EM_T (7 / 40) (7 / 40)); [reflexivity | congruence].
Qed.
Theorem correction_holds : correction.
Proof.
  intros X O e n d B C m grad w eps delta p. split.
  - intros gamma x xs s. apply (p x xs (fun g => s (sub w (scale gamma g)))).
  - intros Y Z y f x xs s. apply (p x xs (fun g => s (f y g))).
Qed.
