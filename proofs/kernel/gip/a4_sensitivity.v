(* gip.a4.sensitivity: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   "we performed per example pruning, keeping 1% of index for each gradient, in this case, we calculated that C_1(I) = 2 x 10^4", with d = 10^6, so that C_1 = 2K for K = 1 % of d.
   C_1 is the sensitivity of Definition 3: the largest distance of the index sets of neighbouring data sets, "differing by at most one unit".
   Read with one record replaced and the index set that is the support of the batch's sum it holds; with one record added or removed it is K.
   Doubt: the paper does not say which neighbours, nor whether the index set is the support of the sum or its top-K set, which Theorem 1 needs. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gip.prop3.
Definition nonzero (a : R) : bool := if Req_EM_T a 0 then false else true.
Definition support (g : vec) : list bool := map nonzero g.
Definition sparse (d K : nat) (g : vec) : Prop := length g = d /\ (ones (support g) <= K)%nat.
Definition index_set (d : nat) (gs : list vec) : list bool := support (sum d gs).
Definition replaced (d K : nat) (x y : list vec) : Prop := exists g g' gs, x = g :: gs /\ y = g' :: gs /\ Forall (sparse d K) (g :: g' :: gs).
Definition added (d K : nat) (x y : list vec) : Prop := exists g, x = g :: y /\ Forall (sparse d K) x.
Definition sensitivity (d : nat) (near : list vec -> list vec -> Prop) (c : nat) : Prop :=
  (forall x y, near x y -> (distance (index_set d x) (index_set d y) <= c)%nat) /\
  exists x y, near x y /\ distance (index_set d x) (index_set d y) = c.
Definition printed : Prop := forall d K, (0 < K)%nat -> (2 * K <= d)%nat -> sensitivity d (replaced d K) (2 * K).
(* another reading: one record added or removed *)
Definition reading : Prop := forall d K, (0 < K)%nat -> (2 * K <= d)%nat -> sensitivity d (added d K) (2 * K).
(* then it is K; and the support, unlike what Theorem 1 needs, can have more than K ones *)
Definition correction : Prop := (forall d K, (0 < K <= d)%nat -> sensitivity d (added d K) K) /\
  exists d K gs, Forall (sparse d K) gs /\ (K < ones (index_set d gs))%nat.

Lemma zero_entry : nonzero 0 = false. Proof. unfold nonzero. destruct (Req_EM_T 0 0); congruence. Qed.
Lemma one_entry a : a <> 0 -> nonzero a = true. Proof. unfold nonzero. destruct (Req_EM_T a 0); congruence. Qed.
Lemma moves u v s : length u = length s -> length v = length s ->
  (distance (support (add u s)) (support (add v s)) <= ones (support u) + ones (support v))%nat.
Proof.
  revert v s; induction u as [|a u IH]; intros [|b v] [|c s] l l'; try discriminate; [simpl; lia|].
  injection l as l. injection l' as l'. specialize (IH v s l l'). unfold support, add, ones in *. cbn [zip map].
  cbn [distance count_occ].
  assert (q : nonzero a = false -> nonzero b = false -> nonzero (a + c) = nonzero (b + c)).
  { unfold nonzero at 1 2. destruct (Req_EM_T a 0), (Req_EM_T b 0); try discriminate. subst. reflexivity. }
  assert (r : forall x y, ((if Bool.eqb x y then 0 else 1) <= 1)%nat) by (intros [] []; simpl; lia).
  pose proof (r (nonzero (a + c)) (nonzero (b + c))). destruct (nonzero a), (nonzero b); simpl; try lia.
  rewrite q by reflexivity. rewrite Bool.eqb_reflx. lia.
Qed.
Lemma add_zero v : add v (zero (length v)) = v.
Proof. induction v as [|a v IH]; [reflexivity|]. unfold add, zero in *. simpl. rewrite IH. f_equal. ring. Qed.
Lemma zero_add s : add (zero (length s)) s = s.
Proof. induction s as [|a v IH]; [reflexivity|]. unfold add, zero in *. simpl. rewrite IH. f_equal. ring. Qed.
Lemma support_repeat a n : support (repeat a n) = repeat (nonzero a) n.
Proof. unfold support. induction n; simpl; congruence. Qed.
Lemma support_app u v : support (u ++ v) = support u ++ support v.
Proof. apply map_app. Qed.
Lemma ones_app a b : ones (a ++ b) = (ones a + ones b)%nat.
Proof. apply count_occ_app. Qed.
Lemma ones_repeat b n : ones (repeat b n) = if b then n else 0%nat.
Proof. unfold ones. induction n as [|n IH]; [destruct b; reflexivity|]. cbn [repeat count_occ]. destruct b; simpl in *; rewrite IH; reflexivity. Qed.
(* the first K entries, and the next K *)
Definition head d K : vec := repeat 1 K ++ repeat 0 (d - K).
Definition next d K : vec := repeat 0 K ++ repeat 1 K ++ repeat 0 (d - 2 * K).
Lemma head_sparse d K : (K <= d)%nat -> sparse d K (head d K).
Proof. intro l. unfold sparse, head. rewrite app_length, !repeat_length, support_app, !support_repeat, ones_app, !ones_repeat, zero_entry, one_entry by lra. lia. Qed.
Lemma next_sparse d K : (2 * K <= d)%nat -> sparse d K (next d K).
Proof. intro l. unfold sparse, next. rewrite !app_length, !repeat_length, !support_app, !support_repeat, !ones_app, !ones_repeat, zero_entry, one_entry by lra. lia. Qed.
Lemma alone d g : length g = d -> index_set d [g] = support g.
Proof. intro l. unfold index_set, sum. cbn [fold_right]. rewrite <- l, add_zero. reflexivity. Qed.
Lemma sum_length d K gs : Forall (sparse d K) gs -> length (sum d gs) = d.
Proof. intro F. apply length_sum. eapply Forall_impl; [|exact F]. unfold sparse; tauto. Qed.
Theorem printed_holds : printed.
Proof.
  intros d K K0 Kd. split.
  - intros x y (g & g' & gs & -> & -> & F). pose proof (Forall_inv F) as [l k]. pose proof (Forall_inv (Forall_inv_tail F)) as [l' k'].
    pose proof (sum_length d K gs (Forall_inv_tail (Forall_inv_tail F))) as ls. unfold index_set, sum in *. cbn [fold_right].
    pose proof (moves g g' (fold_right add (zero d) gs) ltac:(congruence) ltac:(congruence)). lia.
  - exists [head d K], [next d K]. pose proof (head_sparse d K ltac:(lia)) as [a _]. pose proof (next_sparse d K Kd) as [b _]. split.
    + exists (head d K), (next d K), []. repeat split; try reflexivity. repeat constructor; try apply head_sparse; try apply next_sparse; lia.
    + rewrite !alone by assumption. unfold head, next. rewrite !support_app, !support_repeat, zero_entry, one_entry by lra.
      replace (repeat false (d - K)) with (repeat false K ++ repeat false (d - 2 * K)) by (rewrite <- repeat_app; f_equal; lia).
      rewrite !distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). simpl. lia.
Qed.
Lemma added_bound d K x y : added d K x y -> (distance (index_set d x) (index_set d y) <= K)%nat.
Proof.
  intros (g & -> & F). pose proof (Forall_inv F) as [l k]. pose proof (sum_length d K y (Forall_inv_tail F)) as ls.
  unfold index_set, sum in *. cbn [fold_right]. set (s := fold_right add (zero d) y) in *.
  pose proof (moves g (zero (length s)) s ltac:(congruence) ltac:(apply length_zero)) as h. rewrite zero_add in h.
  assert (z : ones (support (zero (length s))) = 0%nat) by (unfold zero; rewrite support_repeat, ones_repeat, zero_entry; reflexivity). lia.
Qed.
(* d = 2, K = 1: one record moves the support of the sum in at most 1 place, not 2 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. destruct (claim 2%nat 1%nat ltac:(lia) ltac:(lia)) as [_ (x & y & n & e)]. pose proof (added_bound 2 1 x y n). lia. Qed.
Theorem correction_holds : correction.
Proof.
  split.
  - intros d K [K0 Kd]. split; [intros x y n; apply added_bound, n|]. exists [head d K], []. pose proof (head_sparse d K Kd) as [a b]. split.
    + exists (head d K). split; [reflexivity|]. repeat constructor; assumption.
    + rewrite alone by exact a. unfold index_set, sum. cbn [fold_right]. unfold head, zero.
      replace (repeat 0 d) with (repeat 0 K ++ repeat 0 (d - K)) by (rewrite <- repeat_app; f_equal; lia).
      rewrite !support_app, !support_repeat, zero_entry, one_entry by lra. rewrite distance_app, !distance_repeat by (rewrite !repeat_length; reflexivity). simpl. lia.
  - exists 2%nat, 1%nat, [[1; 0]; [0; 1]]. split.
    + repeat apply Forall_cons; try constructor; try reflexivity; unfold support, ones; cbn [map]; rewrite zero_entry, one_entry by lra; simpl; lia.
    + unfold index_set, support. cbv [sum fold_right add zip map zero repeat]. rewrite !one_entry by lra. unfold ones. simpl. lia.
Qed.
